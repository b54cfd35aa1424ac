package runner

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

// checkMessage refuses what no model could be given word for word.
func checkMessage(key session.Key, msg llm.Message) error {
	if err := session.CheckKey(key); err != nil {
		return err
	}
	if err := llm.CheckUser(msg); err != nil {
		return fmt.Errorf("%w: %w", err, agent.ErrBadInput)
	}
	return nil
}

const idLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// idPool makes random ids, several at a time, because a turn needs many. It is
// safe for concurrent use.
type idPool struct {
	mu   sync.Mutex
	rest string
}

const idLen = 12 // 60 random bits

func (p *idPool) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rest == "" {
		var b [8 * idLen]byte
		for i := 0; i < len(b); i += idLen {
			n := rand.Uint64()
			for j := range idLen {
				b[i+j] = idLetters[n&31]
				n >>= 5
			}
		}
		p.rest = string(b[:])
	}
	id := p.rest[:idLen]
	p.rest = p.rest[idLen:]
	return id
}

// usableID reports whether an endpoint's call id can stand in a log and go back
// on the wire.
func usableID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
