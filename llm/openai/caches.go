package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// caches adds to a request what tells the endpoint which prompt cache to use. Requests of
// nobody in particular have no part in it.
func (c *client) caches(p *patch, agent string) {
	if agent == "" {
		return
	}
	if c.cacheKey != nil {
		key, _ := json.Marshal(strings.TrimPrefix(*c.cacheKey+"/"+agent, "/")) // a string cannot fail to encode
		p.tail = fmt.Appendf(p.tail, `,"prompt_cache_key":%s`, key)
	}
	if c.slots.n > 0 {
		p.tail = fmt.Appendf(p.tail, `,"id_slot":%d`, c.slots.of(agent))
	}
}

// slots deals the slots of a server to agents.
type slots struct {
	n  int
	mu sync.Mutex
	by map[string]int
}

func (s *slots) of(agent string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, ok := s.by[agent]
	if !ok {
		if s.by == nil {
			s.by = make(map[string]int)
		}
		slot = len(s.by) % s.n
		s.by[agent] = slot
	}
	return slot
}
