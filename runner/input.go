package runner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/session"
)

func checkKey(key session.Key) error {
	for _, part := range []string{key.App, key.User, key.ID} {
		if part == "" || len(part) > 255 || !utf8.ValidString(part) || strings.ContainsRune(part, 0) {
			return fmt.Errorf("session key %q: app, user and id are 1 to 255 bytes of UTF-8 each, without NUL: %w", key, agent.ErrBadInput)
		}
	}
	return nil
}

// checkMessage refuses what no model could be given word for word.
func checkMessage(key session.Key, msg llm.Message) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if msg.Role != llm.RoleUser {
		return fmt.Errorf("the message has the role %q, not user: %w", msg.Role, agent.ErrBadInput)
	}
	if !utf8.ValidString(msg.Text) {
		return fmt.Errorf("the message is not valid UTF-8: %w", agent.ErrBadInput)
	}
	empty := strings.TrimSpace(msg.Text) == ""
	for i, p := range msg.Parts {
		switch p := p.(type) {
		case llm.TextPart:
			if !utf8.ValidString(p.Text) {
				return fmt.Errorf("part %d of the message is not valid UTF-8: %w", i, agent.ErrBadInput)
			}
			empty = empty && strings.TrimSpace(p.Text) == ""
		case llm.Media:
			if (p.Kind != llm.MediaImage && p.Kind != llm.MediaFile) || (len(p.Data) == 0) == (p.URL == "") {
				return fmt.Errorf("part %d of the message needs a kind, and either data or a URL: %w", i, agent.ErrBadInput)
			}
			empty = false
		default:
			return fmt.Errorf("part %d of the message is a %T: users send text, images and files: %w", i, p, agent.ErrBadInput)
		}
	}
	if empty {
		return fmt.Errorf("the message is empty: %w", agent.ErrBadInput)
	}
	return nil
}

// stored returns content as the log keeps it: text that stands beside parts is
// the first of them, as in the JSON form, so that a warm and a cold session send
// the same. The parts are copied, because the caller may go on using its slice.
func stored(c llm.Content) llm.Content {
	if len(c.Parts) == 0 {
		return llm.Content{Text: c.Text}
	}
	parts := make([]llm.Part, 0, len(c.Parts)+1)
	if c.Text != "" {
		parts = append(parts, llm.TextPart{Text: c.Text})
	}
	return llm.Content{Parts: append(parts, c.Parts...)}
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
