package agui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
)

// interrupted is a store that calls a function once, after a number of reads of logs. It waits for the function, unless
// that waits for the reader.
type interrupted struct {
	session.Store
	left int
	call func()
	done chan struct{}
}

func (s *interrupted) Load(ctx context.Context, key session.Key, after int64) iter.Seq2[*event.Event, error] {
	if call := s.call; call != nil {
		if s.left--; s.left < 0 {
			s.call = nil
			go func() {
				call()
				close(s.done)
			}()
			select {
			case <-s.done:
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return s.Store.Load(ctx, key, after)
}

// TestAnswersOfTwoPages: the answer of a page to a question that another page has answered meanwhile answers no other
// question of the same call, at whatever moment the other answer came.
func TestAnswersOfTwoPages(t *testing.T) {
	late := 0
	for left := range 12 {
		var got []string
		pay := must.Get(tools.Func("pay", "Pays.", func(ctx tools.Context, _ struct{}) (string, error) {
			to, err := ctx.Ask("To whom?", json.RawMessage(`{"type":"string"}`))
			if err != nil {
				return "", err
			}
			note, err := ctx.Ask("With which note?", json.RawMessage(`{"type":"string"}`))
			if err == nil {
				got = append(got, string(to), string(note))
			}
			return "paid", err
		}, tools.Resumable()))
		root := must.Get(llmagent.New("payer", "", scripted.Always("payer", scripted.Reply(scripted.Call("pay", `{}`))), llmagent.WithTools(pay)))
		store := &interrupted{Store: sessiontest.Memory(t), left: left, done: make(chan struct{})}
		turns := newTurns(t, root, store)
		w := newWorld(t, turns)
		x := must.Get(turns.Begin(t.Context(), w.key("t1"), llm.UserText("pay")))
		require.NoError(t, x.Wait(t.Context()))
		var asked *event.Event
		for _, e := range w.log("t1") {
			if e.Type() == event.TypeRelay {
				asked = e
			}
		}
		first := false
		store.call = func() { // the other page
			answer := runner.Answer(asked.Data.(*event.Relay).ToolCallID, "ann")
			answer.Digest = asked.Data.(*event.Relay).Digest
			x, err := turns.Resume(context.Background(), w.key("t1"), answer)
			if first = err == nil; first {
				_ = x.Wait(context.Background())
			}
		}
		req := must.Get(http.NewRequest(http.MethodPost, w.url, strings.NewReader(fmt.Sprintf(`{"threadId":"t1","runId":"r1","messages":[],"tools":[],"context":[],
			"state":{},"forwardedProps":{},"resume":[{"interruptId":%q,"status":"resolved","payload":"bob"}]}`, asked.ID))))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer secret")
		resp := must.Get(http.DefaultClient.Do(req))
		must.Get(io.ReadAll(resp.Body))
		require.NoError(t, resp.Body.Close())
		if store.call == nil {
			<-store.done
		}
		store.call = nil
		if first {
			late++
		}
		for _, e := range w.log("t1") {
			if d, ok := e.Data.(*event.RelayResolved); ok && d.RelayID != asked.ID {
				require.NotContains(t, string(d.Content), "bob", "after %d reads", left)
			}
		}
		require.Empty(t, got)
	}
	require.Positive(t, late)
}
