package policy

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
)

// Cache keeps answers in memory and returns them for identical requests: those with the same texts, settings, agent and
// model. It keeps only complete answers that ended with [llm.FinishStop] or [llm.FinishToolCalls]. The usage of an
// answer from the cache has only cached tokens.
type Cache struct {
	size      int
	ttl       time.Duration
	partition func(context.Context) string

	mu      sync.Mutex
	entries map[key]*list.Element
	recent  *list.List // of *entry, the most recently used first
}

type key [sha256.Size]byte

type entry struct {
	key    key
	chunks []llm.Chunk
	until  time.Time
}

// CacheOption configures NewCache.
type CacheOption func(*Cache)

// Partition separates answers by the value of f: a request only finds answers for which f returned the same value. Use
// it, for example, to separate the tenants of a context.
func Partition(f func(context.Context) string) CacheOption {
	return func(c *Cache) { c.partition = f }
}

// maxCached is the maximal number of chunks of an answer that is kept.
const maxCached = 10_000

// NewCache returns a cache of at most this number of answers, each of which expires after ttl. A full cache drops the
// least recently used answer.
func NewCache(answers int, ttl time.Duration, opts ...CacheOption) (*Cache, error) {
	c := &Cache{size: answers, ttl: ttl, partition: func(context.Context) string { return "" },
		entries: make(map[key]*list.Element), recent: list.New()}
	if err := option.Apply(c, opts); err != nil {
		return nil, fmt.Errorf("policy: cache: %w", err)
	}
	if answers < 1 || ttl <= 0 || c.partition == nil {
		return nil, errors.New("policy: a cache needs 1 answer or more, a time above zero, and a partition that is not nil")
	}
	return c, nil
}

// Wrap returns the model with the cache. Models with the same name share answers, so use one cache per endpoint.
func (c *Cache) Wrap(m llm.Model) llm.Model {
	return wrapped{m, func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		k := requestKey(c.partition(ctx), m.Name(), req)
		if chunks := c.find(k); chunks != nil {
			if !yield(noticeChunk(NoticeCached, "the answer is one of "+m.Name()+" to an identical request"), nil) {
				return
			}
			for _, chunk := range chunks {
				if ctx.Err() != nil || !yield(chunk.Clone(), ctx.Err()) {
					return
				}
			}
			return
		}
		var chunks []llm.Chunk
		err, more := forward(m.Generate(ctx, req), func(chunk llm.Chunk, _ error) bool {
			if !withoutAnswer(&chunk) && len(chunks) <= maxCached {
				chunks = append(chunks, chunk.Clone())
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

// keep stores an answer. Its usage then has the input tokens as cached tokens, and no others.
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
	c.entries[k] = c.recent.PushFront(&entry{k, chunks, time.Now().Add(c.ttl)})
	for c.recent.Len() > c.size {
		delete(c.entries, c.recent.Remove(c.recent.Back()).(*entry).key)
	}
}
