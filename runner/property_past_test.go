package runner_test

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// sent is a request, and the position at which its session's log was then.
type sent struct {
	key   session.Key
	seq   int64
	agent string
	req   *llm.Request
}

func (w *world) notes(agentName string, req *llm.Request) {
	infos, err := w.store.List(context.Background(), w.key, session.Page{})
	if err != nil || len(infos) != 1 {
		w.problem("the session %s is not in the list: %v %v", w.key, infos, err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, sent{w.key, infos[0].Seq, agentName, req})
}

// checkSent: what a model was asked can be had at any time later, from the log alone.
func (w *world) checkSent() {
	r := w.runner()
	for _, s := range w.sent {
		got, err := r.PreviewAt(context.Background(), s.key, s.seq, s.agent)
		require.NoError(w.t, err)
		if !sameMessages(got.Messages, s.req.Messages) {
			w.t.Fatalf("%s at %d of %s was not asked this:\n%v\nbut this:\n%v", s.agent, s.seq, s.key, got.Messages, s.req.Messages)
		}
		if got.System != s.req.System || !sameTools(got.Tools, s.req.Tools) {
			w.t.Fatalf("%s at %d of %s was offered something else:\n%v\n%v", s.agent, s.seq, s.key, got.Request, s.req)
		}
	}
}
