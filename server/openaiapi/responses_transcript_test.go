package openaiapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/internal/peers"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// TestResponsesAgain plays all transcripts, and reads each stream again from each of its events, in the process that
// ran it and in another one that has never seen it.
func TestResponsesAgain(t *testing.T) {
	for _, tr := range transcript.All(t, "../../runner/testdata/transfer/*.txtar") {
		t.Run(tr.Name(), func(t *testing.T) {
			script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
			root, store := transcript.Tree(t, tr.Section("agents"), script.Model), sessiontest.Memory(t)
			here, there := newWorldOn(t, newTurns(t, root, store, runner.WithIDs(transcript.Counter()))), newWorldOn(t, newTurns(t, root, store))
			previous := ""
			for _, line := range lines(tr.Section("user")) {
				body := map[string]any{"model": root.Name(), "input": line, "stream": true}
				if previous != "" {
					body["previous_response_id"] = previous
				}
				got := here.respond(body).is(t, 200)
				newReader(t).read(got.Events...).whole()
				here.resumed(got.Events, true)
				there.resumed(got.Events, false)
				previous = got.Response.ID
			}
			require.NoError(t, script.Done())
		})
	}
}

// spoken is what a peer is to say by the Responses API, and to whom.
type spoken struct {
	Base   string `json:"base"`
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Says   []any  `json:"says"`

	name   string
	script *scripted.Script
	want   []answered
}

// answered is what a peer got for a turn.
type answered struct {
	ID        string         `json:"id"`
	Began     string         `json:"began"`
	Status    string         `json:"status"`
	Items     []answeredItem `json:"items"`
	Usage     int            `json:"usage"`
	Code      string         `json:"code"`
	Reason    string         `json:"reason"`
	Previous  string         `json:"previous"`
	Metadata  map[string]any `json:"metadata"`
	Arbor     *wireArbor     `json:"arbor"`
	Snapshots int            `json:"snapshots"`
	Numbers   []int64        `json:"numbers"`
	Error     *struct {
		Status  int    `json:"status"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type answeredItem struct {
	Type      string  `json:"type"`
	Status    *string `json:"status"`
	Agent     string  `json:"agent"`
	Name      *string `json:"name"`
	Arguments *string `json:"arguments"`
	Text      *string `json:"text"`
}

// said gives a line of a transcript in the form of the peers.
func saidIn(line string) any {
	if !strings.HasPrefix(line, "/") {
		return line
	}
	switch d := transcript.Decisions(line[1:], nil)[0]; {
	case d.Content != nil:
		return string(d.Content)
	default:
		return map[string]any{"approve": d.Approved, "reason": d.Reason}
	}
}

// expectedItems plays a transcript in process and says what clients are to get.
func expectedItems(t *testing.T, tr *transcript.Transcript) (all []answered) {
	script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
	r := must.Get(runner.New(transcript.Tree(t, tr.Section("agents"), script.Model), sessiontest.Memory(t)))
	ctx, key := context.Background(), session.ID("s")
	var calls transcript.Calls
	for _, line := range lines(tr.Section("user")) {
		var want answered
		completed := "completed"
		turn := r.Run(ctx, key, llm.UserText(line))
		if strings.HasPrefix(line, "/") {
			turn = r.Resume(ctx, key, transcript.Decisions(line[1:], calls)...)
		}
		res, err := runner.Collect(func(yield func(*event.Event, error) bool) {
			for e, err := range turn {
				if err == nil {
					switch d := e.Data.(type) {
					case *event.ToolCall:
						calls.Add(e)
					case *event.Text:
						if e.Scope == "" {
							want.Items = append(want.Items, answeredItem{Type: "message", Status: &completed, Agent: e.Agent, Text: &d.Content})
						}
					case *event.Relay:
						params := string(d.Params)
						item := answeredItem{Type: "mcp_approval_request", Agent: e.Agent, Name: &d.Tool, Arguments: &params}
						if d.Kind == event.RelayInput {
							words := live.Question(d) + "Answer with your next message."
							item = answeredItem{Type: "message", Status: &completed, Agent: e.Agent, Text: &words}
						}
						want.Items = append(want.Items, item)
					}
				}
				if !yield(e, err) {
					return
				}
			}
		})
		if len(want.Items) == 0 && res.Text != "" {
			want.Items = []answeredItem{{Type: "message", Status: &completed, Agent: res.Agent, Text: &res.Text}}
		}
		want.Usage = res.Usage.InputTokens + res.Usage.OutputTokens
		switch want.Status = completed; res.FinishReason {
		case event.FinishReasonLength:
			want.Status, want.Reason = "incomplete", "max_output_tokens"
		case event.FinishReasonContentFilter:
			want.Status, want.Reason = "incomplete", "content_filter"
		}
		switch {
		case res.FinishReason == event.FinishReasonLimit:
			want.Status, want.Reason = "incomplete", "limit"
		case err != nil:
			want.Status, want.Code = "failed", agent.ErrorCode(err)
		}
		all = append(all, want)
	}
	return all
}

// peersOfResponses runs conversations through the official clients.
func peersOfResponses(t *testing.T, conversations func(t *testing.T) []*spoken, check func(t *testing.T, c *spoken, got []answered)) {
	for _, peer := range []string{"node", "python"} {
		t.Run(peer, func(t *testing.T) {
			program, script := peers.OpenAI().Node(t, "responses.mjs")
			if peer == "python" {
				program, script = peers.OpenAI().Python(t, "responses.py")
			}
			list := conversations(t)
			var got [][]answered
			peers.Run(t, list, &got, program, script)
			require.Len(t, got, len(list))
			for i, c := range list {
				t.Run(fmt.Sprintf("%s, streamed %t", c.name, c.Stream), func(t *testing.T) { check(t, c, got[i]) })
			}
		})
	}
}

// TestResponsesOfficialClients plays all transcripts through the official clients, each response behind the one
// before, and lets them read every response again, and each stream from each of its events.
func TestResponsesOfficialClients(t *testing.T) {
	all := append(transcript.All(t, "../../runner/testdata/transfer/*.txtar"), transcript.All(t, "../../runner/testdata/scopes/*.txtar")...)
	all = slices.DeleteFunc(all, func(tr *transcript.Transcript) bool { // who does not answer a question is asked again here
		return strings.Contains(tr.Section("user"), "/resume") || strings.HasPrefix(tr.Name(), "withdrawn")
	})
	mux := http.NewServeMux()
	url := loopback(t, mux)
	peersOfResponses(t, func(t *testing.T) (list []*spoken) {
		for _, stream := range []bool{false, true} {
			for _, tr := range all {
				script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
				root := transcript.Tree(t, tr.Section("agents"), script.Model)
				prefix := fmt.Sprintf("/%s/%d", strings.ReplaceAll(t.Name(), "/", "-"), len(list))
				mux.Handle(prefix+"/", newWorldOn(t, newTurns(t, root, sessiontest.Memory(t), runner.WithIDs(transcript.Counter())), WithPrefix(prefix+"/v1")))
				c := &spoken{Base: url + prefix + "/v1", Model: root.Name(), Stream: stream, name: tr.Name(), script: script, want: expectedItems(t, tr)}
				for _, line := range lines(tr.Section("user")) {
					c.Says = append(c.Says, saidIn(line))
				}
				list = append(list, c)
			}
		}
		return list
	}, func(t *testing.T, c *spoken, got []answered) {
		require.NoError(t, c.script.Done())
		require.Len(t, got, len(c.want))
		for i, g := range got {
			require.Nil(t, g.Error, "%+v", g.Error)
			require.Equal(t, c.want[i].Items, append([]answeredItem(nil), g.Items...))
			require.Equal(t, c.want[i].Status, g.Status)
			require.Equal(t, c.want[i].Reason, g.Reason)
			require.Equal(t, c.want[i].Code, g.Code)
			require.Equal(t, c.want[i].Usage, g.Usage)
			require.Equal(t, "a test", g.Metadata["from"])
			require.Equal(t, "resp_"+strings.SplitN(strings.SplitN(g.ID[5:], ".", 2)[0], "-", 2)[0], "resp_"+g.Arbor.Turn)
			if i > 0 && !strings.Contains(g.ID, "-") {
				require.Equal(t, got[i-1].ID, g.Previous)
			}
			if c.Stream {
				require.NotEmpty(t, g.Numbers)
			}
		}
	})
}

// TestResponsesOfficialTasks: what is done in the background, canceled, asked and answered, by the official clients.
func TestResponsesOfficialTasks(t *testing.T) {
	mux := http.NewServeMux()
	url := loopback(t, mux)
	task := func(text string, cancel bool) map[string]any { return map[string]any{"text": text, "cancel": cancel} }
	peersOfResponses(t, func(t *testing.T) (list []*spoken) {
		for _, stream := range []bool{false, true} {
			prefix := fmt.Sprintf("/%s/%d", strings.ReplaceAll(t.Name(), "/", "-"), len(list))
			mux.Handle(prefix+"/", newWorld(t, newDesk(t).root, WithPrefix(prefix+"/v1")))
			list = append(list, &spoken{Base: url + prefix + "/v1", Model: "support", Stream: stream, name: "tasks",
				Says: []any{task("hello", false), task("think", true), "refund both", map[string]any{"approve": true, "call": "?"}, "fail", "bye"}})
		}
		return list
	}, func(t *testing.T, _ *spoken, got []answered) {
		var status []string
		for _, g := range got {
			require.Nil(t, g.Error, "%+v", g.Error)
			status = append(status, g.Status)
		}
		require.Equal(t, []string{"completed", "cancelled", "completed", "completed", "failed", "completed"}, status)
		require.Equal(t, "in_progress", got[1].Began)
		require.Equal(t, "Words 1.", *got[0].Items[0].Text)
		require.Len(t, got[2].Items, 2)
		require.Equal(t, live.Waiting, got[2].Arbor.State)
		require.Equal(t, live.Done, got[3].Arbor.State)
		require.Equal(t, got[2].Arbor.Turn, got[3].Arbor.Turn)
		require.Equal(t, got[0].Arbor.Session, got[5].Arbor.Session)
	})
}

// TestResponsesOwnClient plays all transcripts through this project's own client, which sends the whole history each
// time and keeps nothing of the answer but its words.
func TestResponsesOwnClient(t *testing.T) {
	takenBack := map[string]bool{"cut-stream": true, "length": true} // words that the client cannot take back
	for _, tr := range transcript.All(t, "../../runner/testdata/transfer/*.txtar") {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, streamed %t", tr.Name(), stream), func(t *testing.T) {
				script := must.Get(scripted.Parse([]byte(tr.Section("script"))))
				root := transcript.Tree(t, tr.Section("agents"), script.Model)
				w := newWorldOn(t, newTurns(t, root, sessiontest.Memory(t)))
				model := must.Get(openai.New(root.Name(), openai.WithBaseURL(loopback(t, w)+"/v1"), openai.WithAPIKey("secret"), openai.WithResponses(), openai.WithRetries(0)))
				req := &llm.Request{Stream: stream, System: "Be brief."}
				want := expectedItems(t, tr)
				for i, line := range lines(tr.Section("user")) {
					req.Messages = append(req.Messages, llm.UserText(line))
					var said strings.Builder
					var finish llm.FinishReason
					var failed error
					for chunk, err := range model.Generate(t.Context(), req) {
						said.WriteString(chunk.Text)
						failed, finish = err, chunk.Finish
					}
					var texts []string
					for _, item := range want[i].Items {
						if !slices.Contains(texts, *item.Text) { // the client says a text that is repeated only once
							texts = append(texts, *item.Text)
						}
					}
					text := strings.Join(texts, "\n\n")
					if want[i].Status == "failed" {
						require.Error(t, failed)
					} else {
						require.NoError(t, failed)
						require.Equal(t, map[string]llm.FinishReason{"": llm.FinishStop, "limit": llm.FinishLength, "max_output_tokens": llm.FinishLength, "content_filter": llm.FinishContentFilter}[want[i].Reason], finish)
					}
					if stream && takenBack[tr.Name()] && said.String() != text {
						require.True(t, strings.HasSuffix(said.String(), text), said.String())
					} else if failed == nil || stream {
						require.Equal(t, text, said.String())
					}
					if text != "" {
						req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Content: llm.Content{Text: text}})
					}
				}
				require.NoError(t, script.Done())
				require.Len(t, w.list(), 1, "its history is known")
			})
		}
	}
}
