package policy

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/agentarbor/arbor/llm"
)

// Concurrency bounds how many answers are under way at once, over all the models that it
// wraps: those of one endpoint. Requests beyond that wait, in their order, until an
// answer is over or given up.
type Concurrency struct{ places *semaphore.Weighted }

// NewConcurrency allows so many answers at once.
func NewConcurrency(answers int) (*Concurrency, error) {
	if answers < 1 {
		return nil, fmt.Errorf("policy: %d answers at once: 1 or more are needed", answers)
	}
	return &Concurrency{semaphore.NewWeighted(int64(answers))}, nil
}

// Wrap returns the model under the limit.
func (c *Concurrency) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		began := time.Now()
		if err := c.places.Acquire(ctx, 1); err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		defer c.places.Release(1)
		if waited(began, "a place at "+m.Name(), yield) {
			m.Generate(ctx, req)(yield)
		}
	}}
}
