package policy

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
)

// Cache answers a request that is identical to an earlier one, in everything that is sent
// and in who asks, with the earlier answer, from memory. Only whole answers that ended
// with words or calls are kept. An answer from the cache counts no tokens but cached ones.
type Cache struct {
	most      int
	lives     time.Duration
	partition func(context.Context) string

	mu      sync.Mutex
	entries map[key]*list.Element
	recent  *list.List // of *entry, the latest first
}

type key [sha256.Size]byte

type entry struct {
	key    key
	chunks []llm.Chunk
	until  time.Time
}

// CacheOption configures NewCache.
type CacheOption func(*Cache)

// Partition keeps answers apart besides: one is found only where f returns what it has
// returned when the answer was kept, such as the tenant of the context.
func Partition(f func(context.Context) string) CacheOption {
	return func(c *Cache) { c.partition = f }
}

// maxCached bounds what is kept of one answer, in chunks.
const maxCached = 10_000

// NewCache keeps so many answers, each for so long.
func NewCache(answers int, lives time.Duration, opts ...CacheOption) (*Cache, error) {
	c := &Cache{most: answers, lives: lives, partition: func(context.Context) string { return "" },
		entries: make(map[key]*list.Element), recent: list.New()}
	if err := option.Apply(c, opts); err != nil {
		return nil, fmt.Errorf("policy: cache: %w", err)
	}
	if answers < 1 || lives <= 0 || c.partition == nil {
		return nil, errors.New("policy: a cache needs 1 answer or more, a time above zero, and no partition or one that is not nil")
	}
	return c, nil
}

// Wrap returns the model with the cache in front of it. Models of one name share answers,
// so a cache belongs to one endpoint.
func (c *Cache) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		k := keyOf(c.partition(ctx), m.Name(), req)
		if chunks := c.find(k); chunks != nil {
			if !yield(noticed(NoticeCached, "the answer is one of "+m.Name()+" to an identical request"), nil) {
				return
			}
			for _, chunk := range chunks {
				if ctx.Err() != nil || !yield(copied(chunk), ctx.Err()) {
					return
				}
			}
			return
		}
		var chunks []llm.Chunk
		err, more := pass(m.Generate(ctx, req), func(chunk llm.Chunk, _ error) bool {
			if !aside(&chunk) && len(chunks) <= maxCached {
				chunks = append(chunks, copied(chunk))
			}
			return yield(chunk, nil)
		})
		switch n := len(chunks); {
		case err != nil:
			yield(llm.Chunk{}, err)
		case more && n <= maxCached && (chunks[n-1].Finish == llm.FinishStop || chunks[n-1].Finish == llm.FinishToolCalls):
			c.keep(k, chunks)
		}
	}}
}

func (c *Cache) find(k key) []llm.Chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[k]
	if at == nil || time.Now().After(at.Value.(*entry).until) {
		return nil
	}
	c.recent.MoveToFront(at)
	return at.Value.(*entry).chunks
}

// keep keeps an answer, without its cost: as usage it has the input that it spares.
func (c *Cache) keep(k key, chunks []llm.Chunk) {
	for i, chunk := range chunks {
		if chunk.Usage != nil {
			chunks[i].Usage = &llm.Usage{CachedTokens: chunk.Usage.InputTokens}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[k]; at != nil {
		c.recent.Remove(at)
	}
	c.entries[k] = c.recent.PushFront(&entry{k, chunks, time.Now().Add(c.lives)})
	for c.recent.Len() > c.most {
		delete(c.entries, c.recent.Remove(c.recent.Back()).(*entry).key)
	}
}

// copied returns a chunk that its consumer may change.
func copied(c llm.Chunk) llm.Chunk {
	if c.Call != nil {
		call := *c.Call
		c.Call = &call
	}
	if c.Usage != nil {
		u := *c.Usage
		c.Usage = &u
	}
	c.LogProbs = slices.Clone(c.LogProbs)
	return c
}
