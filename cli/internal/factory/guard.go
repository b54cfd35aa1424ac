package factory

import (
	"context"
	"iter"
	"strings"

	"github.com/agentarbor/arbor/llm"
)

// leastSecret is the length from which a key is looked for in answers. Shorter
// ones are no secrets but the words that local endpoints want for a key, and
// taking them out would harm what a model says.
const leastSecret = 10

// guarded takes an endpoint's key out of the answers of its models, so that an
// endpoint that plays it back cannot bring it into the log.
type guarded struct {
	llm.Model
	key string
}

// guard returns the model, guarded if there is a key worth it.
func guard(m llm.Model, key string) llm.Model {
	if key = strings.TrimSpace(key); len(key) < leastSecret {
		return m
	}
	return guarded{m, key}
}

func (g guarded) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text, reasoning := scrubber{key: g.key}, scrubber{key: g.key}
		for c, err := range g.Model.Generate(ctx, req) {
			if err == nil {
				last := c.Call != nil || c.Finish != ""
				c.Text, c.Reasoning = text.next(c.Text, last), reasoning.next(c.Reasoning, last)
				c.Model = strings.ReplaceAll(c.Model, g.key, removed)
				if c.Call != nil {
					call := *c.Call
					for _, field := range []*string{&call.ID, &call.Name, &call.Arguments} {
						*field = strings.ReplaceAll(*field, g.key, removed)
					}
					c.Call = &call
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

const removed = "[secret]"

// scrubber takes a key out of a text that comes in pieces.
type scrubber struct{ key, held string }

// next returns what can be shown with this piece: all but an end that may be
// the beginning of the key, unless it is the last piece.
func (s *scrubber) next(piece string, last bool) string {
	text := strings.ReplaceAll(s.held+piece, s.key, removed)
	s.held = ""
	if last {
		return text
	}
	for n := min(len(s.key)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, s.key[:n]) {
			s.held = text[len(text)-n:]
			break
		}
	}
	return text[:len(text)-len(s.held)]
}
