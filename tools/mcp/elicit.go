package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/tools"
)

// question is a question of the server to the user while a call runs.
type question struct {
	message string
	schema  json.RawMessage
	once    sync.Once
	settled chan struct{}     // closed when result is set
	result  *sdk.ElicitResult // the answer
}

func (q *question) answer(r *sdk.ElicitResult) {
	q.once.Do(func() {
		q.result = r
		close(q.settled)
	})
}

func cancelled() *sdk.ElicitResult { return &sdk.ElicitResult{Action: "cancel"} }

// elicit receives a question of the server and waits for its answer.
func (c *conn) elicit(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	if req.Params == nil || req.Params.Mode == "url" {
		return nil, errors.New("only forms can be answered")
	}
	q := &question{message: visible.Cut(req.Params.Message, maxDescription), settled: make(chan struct{})}
	if req.Params.RequestedSchema != nil {
		schema, err := json.Marshal(req.Params.RequestedSchema)
		if err != nil || len(schema) > maxSchema {
			return nil, errors.New("the schema of the question is too long")
		}
		q.schema = schema
	}
	if r, ok := ctx.Value(callKey{}).(*call); ok { // since version 2026-07-28 the call is known
		go r.ask(q)
	} else {
		c.mu.Lock()
		c.unpaired = append(c.unpaired, q)
		c.pair()
		c.mu.Unlock()
	}
	select {
	case <-q.settled:
		return q.result, nil
	case <-ctx.Done():
		q.answer(cancelled())
		return nil, ctx.Err()
	case <-c.ended:
		q.answer(cancelled())
		return cancelled(), nil
	}
}

// ask passes a question to the execution of its call.
func (r *call) ask(q *question) {
	select {
	case r.questions <- q:
	case <-q.settled: // the server no longer waits for the answer
	case <-r.life.Done():
		q.answer(cancelled())
	}
}

// question returns the open question of the call, or nil if there is none.
func (r *call) question() *question {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open == nil || r.open.over() {
		return nil
	}
	return r.open
}

// over reports whether the server no longer waits for the answer.
func (q *question) over() bool {
	select {
	case <-q.settled:
		return true
	default:
		return false
	}
}

func (r *call) setQuestion(q *question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = q
}

// pair finds the calls to which the questions belong. Before version 2026-07-28 a question does not name its call. So
// it waits until every running call that may have asked it has a question. If several calls of one conversation ask at
// the same time, pair assigns the questions in the order in which the calls started, because the same user answers all
// of them. If the calls belong to several conversations, pair does not guess.
func (c *conn) pair() {
	var might []*call
	one := true
	for _, r := range c.running {
		if r.question() == nil {
			might = append(might, r)
			one = one && r.context().Session() == might[0].context().Session()
		}
	}
	switch n := len(c.unpaired); {
	case n == 0 || n < len(might):
		return
	case n == len(might) && one:
		for i, q := range c.unpaired {
			might[i].setQuestion(q)
			go might[i].ask(q)
		}
	default:
		c.server.logger.Warn("an MCP server asks something, and it cannot be known in which conversation: it is told that nobody answers")
		for _, q := range c.unpaired {
			q.answer(cancelled())
		}
	}
	c.unpaired = nil
}

// answer asks for the answers to the server's questions in a call, and sends the last answer to the server. If the last
// question has no answer yet, the error is agent.ErrWaits: the turn pauses, and the call stays open.
func (s *Server) answer(r *call, ctx tools.Context, key place) error {
	var content json.RawMessage
	err := errors.New("nothing is asked")
	for ; r.replayed < len(r.asked); r.replayed++ {
		q := r.asked[r.replayed]
		content, err = ctx.Ask("mcp server "+s.name+": "+q.message, q.schema)
	}
	last := r.asked[len(r.asked)-1]
	var declined *tools.DeclinedError
	switch {
	case errors.Is(err, agent.ErrWaits):
		s.park(key, r)
		return err
	case errors.As(err, &declined):
		last.answer(&sdk.ElicitResult{Action: "decline"})
		return nil
	case err != nil:
		last.answer(cancelled())
		return nil
	}
	accepted := &sdk.ElicitResult{Action: "accept"}
	if json.Unmarshal(content, &accepted.Content) != nil || accepted.Content == nil {
		accepted.Content = map[string]any{} // without a schema the answer is a text
	}
	last.answer(accepted)
	return nil
}
