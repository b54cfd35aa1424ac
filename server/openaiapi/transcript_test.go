package openaiapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/peers"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// conversation is what a peer is to say, and to whom.
type conversation struct {
	Base      string            `json:"base"`
	Model     string            `json:"model"`
	Stream    bool              `json:"stream"`
	LangChain bool              `json:"langchain,omitempty"`
	Retries   int               `json:"retries,omitempty"`
	Says      []string          `json:"says"`
	Headers   map[string]string `json:"headers,omitempty"`

	tr     *transcript.Transcript
	script *scripted.Script
}

// told is what a peer got for each turn.
type told struct {
	Content string     `json:"content"`
	Finish  string     `json:"finish"`
	Usage   int        `json:"usage"`
	Chunks  int        `json:"chunks"`
	Session string     `json:"session"`
	Arbor   *wireArbor `json:"arbor"`
	Error   *struct {
		Status  int    `json:"status"`
		Code    string `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// expected plays a transcript in process and says what clients are to be told.
func expected(t *testing.T, tr *transcript.Transcript) (all []told) {
	script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
	r := must.Get(runner.New(transcript.Tree(t, tr.Section("agents"), script.Model), sessiontest.Memory(t)))
	for _, line := range lines(tr.Section("user")) {
		var want told
		var texts []string
		res, err := runner.Collect(func(yield func(*event.Event, error) bool) {
			for e, err := range r.Run(context.Background(), session.ID("s"), llm.UserText(line)) {
				if err == nil && e.Scope == "" && strings.TrimSpace(e.Text()) != "" {
					texts = append(texts, e.Text())
				}
				if !yield(e, err) {
					return
				}
			}
		})
		want.Content, want.Finish, want.Usage = strings.Join(texts, "\n\n"), string(res.FinishReason), res.Usage.InputTokens+res.Usage.OutputTokens
		if len(texts) == 0 {
			want.Content = res.Text
		}
		if err != nil {
			want.Finish = "error"
		}
		all = append(all, want)
	}
	return all
}

// TestTranscripts plays all transcripts through the official clients, which send the whole history each time: they
// are told what was said, and how it ended, and come back to the session each time.
func TestTranscripts(t *testing.T) {
	all := transcript.All(t, "../../runner/testdata/transfer/*.txtar")
	mux := http.NewServeMux()
	url := loopback(t, mux)
	newConversations := func(t *testing.T, langchain bool) (list []*conversation) {
		for _, stream := range []bool{false, true} {
			for _, tr := range all {
				script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
				root := transcript.Tree(t, tr.Section("agents"), script.Model)
				prefix := fmt.Sprintf("/%s/%t%d", strings.ReplaceAll(t.Name(), "/", "-"), langchain, len(list))
				w := newWorldOn(t, newTurns(t, root, sessiontest.Memory(t)), WithPrefix(prefix+"/v1"))
				mux.Handle(prefix+"/", w)
				list = append(list, &conversation{Base: url + prefix + "/v1", Model: root.Name(), Stream: stream, LangChain: langchain, Says: lines(tr.Section("user")), tr: tr, script: script})
			}
		}
		return list
	}
	restarts := map[string]int{"cut-stream": 1, "length": 1}
	check := func(t *testing.T, c *conversation, got []told) {
		require.NoError(t, c.script.Done())
		want := expected(t, c.tr)
		require.Len(t, got, len(want))
		session := ""
		for i, g := range got {
			if g.Session != "" {
				require.Equal(t, cmp.Or(session, g.Session), g.Session, "the client comes back to its session")
				session = g.Session
			}
			if want[i].Finish == "error" && g.Content == "" { // nothing was sent before
				require.NotNil(t, g.Error)
				require.Equal(t, http.StatusBadGateway, g.Error.Status, "%+v", g.Error)
				continue
			}
			if c.Stream && restarts[c.tr.Name()] == i+1 { // words were sent that are void
				require.Equal(t, "answer_restarted", g.Error.Code)
				continue
			}
			if want[i].Finish == "error" {
				require.NotNil(t, g.Error)
				require.Equal(t, want[i].Content, g.Content)
				continue
			}
			require.Nil(t, g.Error, "%+v", g.Error)
			require.Equal(t, want[i].Content, g.Content)
			require.Equal(t, want[i].Finish, g.Finish)
			require.Equal(t, want[i].Usage, g.Usage)
			if !c.LangChain {
				require.Equal(t, g.Session, g.Arbor.Session)
				require.NotEmpty(t, g.Arbor.Turn)
			}
		}
	}
	for _, peer := range []string{"node", "python"} {
		t.Run(peer, func(t *testing.T) {
			list := newConversations(t, false)
			var program, script string
			if peer == "node" {
				program, script = peers.OpenAI().Node(t, "chat.mjs")
			} else {
				program, script = peers.OpenAI().Python(t, "chat.py")
				list = append(list, newConversations(t, true)...)
			}
			var got [][]told
			peers.Run(t, list, &got, program, script)
			require.Len(t, got, len(list))
			for i, c := range list {
				name := c.tr.Name()
				if c.LangChain {
					name += ", LangChain"
				}
				if c.Stream {
					name += ", streamed"
				}
				t.Run(name, func(t *testing.T) { check(t, c, got[i]) })
			}
		})
	}
}
