// Package asked returns requests to models: the request at a position of a log, the request that was sent, and sampled
// answers.
package asked

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// Requests keeps the last requests that were sent to models, in memory. They can be compared with a view, which is
// computed from the log and the current tree. It is an interceptor for runner.WithInterceptors, and must be the last
// one, so that it sees the changes of the others. It is safe for concurrent use.
type Requests struct {
	agent.Passthrough
	most int64

	mu   sync.Mutex
	used int64
	kept []entry // the oldest first
}

type entry struct {
	key   session.Key
	agent string
	seq   int64
	Sent
}

// Sent is a request that was sent.
type Sent struct {
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	// Request is a [Request] as JSON. It shares no memory with the log.
	Request json.RawMessage `json:"request"`
}

// Keep returns an interceptor that keeps this number of bytes, and drops the oldest requests first. It returns an error
// if the number is not above 0.
func Keep(bytes int64) (*Requests, error) {
	if bytes <= 0 {
		return nil, errors.New("server: the bytes for requests must be more than 0")
	}
	return &Requests{most: bytes}, nil
}

// ModelCall implements agent.Interceptor.
func (r *Requests) ModelCall(ctx context.Context, c agent.ModelCallInfo, next agent.ModelFunc) iter.Seq2[llm.Chunk, error] {
	if inv := c.Invocation; inv.Scope() == "" && ctx.Value(sampling{}) == nil {
		if body, err := json.Marshal(RequestOf(c.Model, c.Request)); err == nil {
			r.keep(entry{inv.Session().Key(), inv.Agent().Name(), inv.Session().Seq(), Sent{time.Now().UTC(), inv.Attempt(), body}})
		}
	}
	return next(ctx, c.Request)
}

// overhead is the approximate number of bytes of a request in addition to its JSON.
const overhead = 256

func (e entry) size() int64 { return int64(len(e.Request)) + overhead }

func (r *Requests) keep(e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.size() > r.most {
		return // it would displace all others
	}
	r.kept, r.used = append(r.kept, e), r.used+e.size()
	for r.used > r.most {
		r.used -= r.kept[0].size()
		r.kept[0] = entry{} // so that the array does not keep it alive
		r.kept = r.kept[1:]
	}
}

// Find returns the last request of an agent that was sent when the log ended at a position, nil if none is kept.
func (r *Requests) Find(key session.Key, name string, seq int64) *Sent {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.kept) - 1; i >= 0; i-- {
		if e := &r.kept[i]; e.key == key && e.agent == name && e.seq == seq {
			return new(e.Sent)
		}
	}
	return nil
}
