package openai

import (
	"strings"
	"sync"
)

// addCacheFields adds the fields that tell the endpoint which prompt cache to use. It adds none if the request names no
// agent.
func (c *client) addCacheFields(w *wireRequest, agent string) {
	if agent == "" {
		return
	}
	w.PromptCacheKey = c.promptCacheKey(agent)
	if c.slots.n > 0 {
		slot := c.slots.of(agent)
		w.Slot = &slot
	}
}

func (c *client) promptCacheKey(agent string) string {
	if c.cacheKey == nil || agent == "" {
		return ""
	}
	return strings.TrimPrefix(*c.cacheKey+"/"+agent, "/")
}

// slots assigns the slots of a server to agents.
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
