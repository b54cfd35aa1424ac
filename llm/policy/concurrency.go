package policy

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/agentarbor/arbor/llm"
)

// Concurrency limits the number of concurrent answers of all models that it wraps, usually those of one endpoint.
// Further requests wait in order until an answer ends or is cancelled.
type Concurrency struct{ places *semaphore.Weighted }

// NewConcurrency returns a limit of this number of concurrent answers.
func NewConcurrency(answers int) (*Concurrency, error) {
	if answers < 1 {
		return nil, fmt.Errorf("policy: %d concurrent answers: the limit must be 1 or more", answers)
	}
	return &Concurrency{semaphore.NewWeighted(int64(answers))}, nil
}

// Wrap returns the model with the limit.
func (c *Concurrency) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		began := time.Now()
		if err := c.places.Acquire(ctx, 1); err != nil {
			yield(llm.Chunk{}, notAsked(ctx, m))
			return
		}
		defer c.places.Release(1)
		if noticeWait(began, "a place at "+m.Name(), yield) {
			m.Generate(ctx, req)(yield)
		}
	}}
}
