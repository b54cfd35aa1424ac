package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/server/mcpserver"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// paying is a server whose tool pay needs an approval. Of its users sue is staff, and bob is not.
type paying struct {
	by       tools.By
	t        *testing.T
	store    session.Store
	ran      atomic.Int32
	accounts *access.Accounts
	server   *mcpserver.Server
	url      string
}

func newPaying(t *testing.T, by tools.By) *paying {
	p := &paying{t: t, by: by, store: sessiontest.Memory(t)}
	var err error
	p.accounts, err = access.NewAccounts()
	require.NoError(t, err)
	p.sign(access.Approve)
	p.server, err = mcpserver.New(p.tree("Pays one euro."), mcpserver.WithAccess(access.Options{Users: p.accounts}))
	require.NoError(t, err)
	web := httptest.NewServer(p.server)
	t.Cleanup(func() { _ = web.Config.Close() }) // web.Close would wait for streams that clients have begun again
	p.url = web.URL
	return p
}

// sign gives sue rights.
func (p *paying) sign(rights access.Rights) {
	require.NoError(p.t, p.accounts.Replace(access.Account{Name: "bob", Token: access.HashToken("bob")}, access.Account{Name: "sue", Token: access.HashToken("sue"), Rights: rights}))
}

// tree is a process whose tool has a description.
func (p *paying) tree(description string) *runner.Runner {
	pay, err := tools.Func("pay", description, func(tools.Context, struct{}) (string, error) { p.ran.Add(1); return "paid", nil }, tools.NeedsApproval(p.by))
	require.NoError(p.t, err)
	root, err := llmagent.New("clerk", "You pay.", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Paid."))
		}
		return scripted.Reply(scripted.Call("pay", `{}`))
	}), llmagent.WithTools(pay))
	require.NoError(p.t, err)
	r, err := runner.New(root, p.store)
	require.NoError(p.t, err)
	return r
}

// waits is the question that the only session of a user asks.
func (p *paying) waits(user string) (session.Key, *event.Relay) {
	infos, err := p.store.List(context.Background(), session.Key{App: session.DefaultApp, User: user}, session.Page{Limit: 2})
	require.NoError(p.t, err)
	require.Len(p.t, infos, 1)
	asked, err := p.tree("Pays one euro.").Pending(context.Background(), infos[0].Key)
	require.NoError(p.t, err)
	require.Len(p.t, asked, 1, "the call keeps waiting")
	require.Zero(p.t, p.ran.Load())
	return infos[0].Key, asked[0]
}

// agrees are the options of a client whose user approves everything, after something was done meanwhile.
func agrees(meanwhile func()) *sdk.ClientOptions {
	return &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		meanwhile()
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approved": true}}, nil
	}}
}

// TestElicitationOfADecider: a user who may not decide is not asked, and approves by no way of answering.
func TestElicitationOfADecider(t *testing.T) {
	for _, version := range versions {
		p := newPaying(t, tools.ByStaff())
		c := client(t, p.url, "bob", version, agrees(func() { t.Error("bob was asked") }))
		text, r, _ := ask(t, c, map[string]any{"message": "pay"})
		require.Contains(t, text, live.Colleague)
		require.Empty(t, r.Questions)
		key, asked := p.waits("bob")
		text, _, failed := ask(t, c, map[string]any{"session": key.ID, "answers": map[string]any{asked.ToolCallID: true}})
		require.True(t, failed)
		require.Contains(t, text, "a colleague has to approve this")
		yes := &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approved": true}}
		res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "pay"}, RequestState: key.ID,
			InputResponses: sdk.InputResponseMap{asked.ToolCallID: yes, asked.ToolCallID + " " + asked.Digest: yes}})
		require.True(t, err != nil || res.IsError)
		p.waits("bob")

		// sue may, but has lost the right when the answer arrives
		c = client(t, p.url, "sue", version, agrees(func() { p.sign(0) }))
		res, err = c.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask", Arguments: map[string]any{"message": "pay"}})
		require.True(t, err != nil || res.IsError)
		p.waits("sue")
	}
}

// TestElicitationOfAnotherQuestion: an answer counts only for the question that the user has seen, also if the same call
// asks about another tool by then.
func TestElicitationOfAnotherQuestion(t *testing.T) {
	for _, version := range versions {
		p := newPaying(t, tools.ByUser())
		var seen, now *event.Relay
		meanwhile := agrees(func() {
			if seen != nil {
				return
			}
			var key session.Key
			key, seen = p.waits(session.DefaultUser)
			next := p.tree("Pays all.")
			for _, err := range next.Resume(context.Background(), key, runner.Approve(seen.ToolCallID)) {
				require.NoError(t, err)
			}
			p.server.Swap(next)
			_, now = p.waits(session.DefaultUser)
		})
		in, toServer := io.Pipe() // not over HTTP, where the SDK serves no version 2026-07-28 that keeps sessions
		fromServer, out := io.Pipe()
		go func() { _ = p.server.Serve(t.Context(), in, out) }()
		c, err := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, meanwhile).Connect(t.Context(),
			&sdk.IOTransport{Reader: fromServer, Writer: toServer}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		require.NoError(t, err)
		require.Equal(t, version, c.InitializeResult().ProtocolVersion)
		_, _, _ = ask(t, c, map[string]any{"message": "pay"})
		require.NoError(t, c.Close())
		require.NotNil(t, now)
		require.Equal(t, seen.ToolCallID, now.ToolCallID)
		require.NotEqual(t, seen.Digest, now.Digest)
		p.waits(session.DefaultUser)
	}
}

// TestSecondQuestion: a call whose tool has changed asks again. It runs with the answer to its second question, by a form
// or by the answer that the result suggests, and not with a yes that may be about the first one.
func TestSecondQuestion(t *testing.T) {
	for _, version := range versions {
		p := newPaying(t, tools.ByUser())
		c := client(t, p.url, "sue", version, agrees(func() { p.server.Swap(p.tree("Pays all.")) }))
		text, _, failed := ask(t, c, map[string]any{"message": "pay"})
		require.False(t, failed, text)
		require.Equal(t, "Paid.", text)
		require.EqualValues(t, 1, p.ran.Load())
	}
	p := newPaying(t, tools.ByUser())
	c := client(t, p.url, "sue", versions[0], nil)
	_, r, _ := ask(t, c, map[string]any{"message": "pay"})
	p.server.Swap(p.tree("Pays all."))
	yes := map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: true}}
	text, _, failed := ask(t, c, yes)
	require.False(t, failed, text)
	again, _, failed := ask(t, c, yes)
	require.True(t, failed)
	require.Contains(t, again, "asks again")
	require.Zero(t, p.ran.Load())
	_, suggested, _ := strings.Cut(text, "answers, such as ")
	var answers map[string]any
	require.NoError(t, json.Unmarshal([]byte(strings.TrimSuffix(suggested, ".")), &answers), text)
	text, _, failed = ask(t, c, map[string]any{"session": r.Session, "answers": answers})
	require.False(t, failed, text)
	require.EqualValues(t, 1, p.ran.Load())
}

// TestAnswersWithADigestReadNoTurn: only answers without a digest need the questions that the turn has asked before.
func TestAnswersWithADigestReadNoTurn(t *testing.T) {
	reads := make(map[bool]int32)
	for _, named := range []bool{false, true} {
		p := newPaying(t, tools.ByUser())
		store := &counting{Store: p.store}
		p.store = store
		p.server.Swap(p.tree("Pays one euro."))
		c := client(t, p.url, "bob", versions[0], nil)
		_, r, _ := ask(t, c, map[string]any{"message": "pay"})
		answer := map[string]any{"approved": true}
		if named {
			answer["digest"] = r.Questions[0].Digest
		}
		before := store.loads.Load()
		text, _, _ := ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: answer}})
		require.Equal(t, "Paid.", text)
		reads[named] = store.loads.Load() - before
	}
	require.Equal(t, reads[false]-1, reads[true])
}

// counting counts how often a log is read.
type counting struct {
	session.Store
	loads atomic.Int32
}

func (s *counting) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	s.loads.Add(1)
	return s.Store.Load(ctx, key, after)
}

// TestAnswerSentAgain: an answer that a client sends again, because it lost the result, answers no other question of
// the call.
func TestAnswerSentAgain(t *testing.T) {
	var got []string
	pay := must.Get(tools.Func("pay", "Pays.", func(ctx tools.Context, _ struct{}) (string, error) {
		from, err := ctx.Ask("From which account?", nil)
		if err != nil {
			return "", err
		}
		to, err := ctx.Ask("To which account?", nil)
		if err == nil {
			got = append(got, string(from)+" to "+string(to))
		}
		return "paid", err
	}))
	root := must.Get(llmagent.New("clerk", "You pay.", scripted.Func("m", func(req *llm.Request) scripted.Answer {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return scripted.Reply(scripted.Text("Paid."))
		}
		return scripted.Reply(scripted.Call("pay", `{}`))
	}), llmagent.WithTools(pay)))
	c := client(t, webOf(t, must.Get(runner.New(root, sessiontest.Memory(t)))), "ann-token", versions[0], nil)
	_, r, _ := ask(t, c, map[string]any{"message": "pay"})
	require.Len(t, r.Questions, 1)
	require.NotEmpty(t, r.Questions[0].Digest)
	answer := map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: "ann's"}}
	_, second, _ := ask(t, c, answer)
	text, _, failed := ask(t, c, answer)
	require.True(t, failed)
	require.Contains(t, text, "has asked before")
	require.Empty(t, got)
	_, r, _ = ask(t, c, map[string]any{"session": r.Session, "answers": map[string]any{r.Questions[0].CallID: map[string]any{"content": "bob's", "digest": second.Questions[0].Digest}}})
	require.Empty(t, r.Questions)
	require.Equal(t, []string{`"ann's" to "bob's"`}, got)
}
