package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"

	"pgregory.net/rapid"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// thinks begins every thought of a model, and nothing else.
const thinks = "thought: "

var speaker = regexp.MustCompile(`^\[([a-z0-9_]+)\] (.*)`)

// checkView holds a request against what its agent may see: nobody's thoughts but its
// own, no transfer of its own that came about, and what its policy shows.
func (w *world) checkView(m *plannedModel, req *llm.Request) {
	for i := range req.Messages {
		msg := &req.Messages[i]
		texts := []string{msg.Text}
		for _, p := range msg.Parts {
			switch p := p.(type) {
			case llm.TextPart:
				texts = append(texts, p.Text)
			case llm.ToolResult:
				texts = append(texts, p.Output)
				if strings.HasPrefix(p.Output, "Transferred to ") && !m.shares {
					w.problem("request of %s: it sees a transfer of its own: %v", m.name, msg)
				}
			case llm.ToolCall:
				target, own := strings.CutPrefix(p.Name, "transfer_to_")
				own = own && target != "" && p.Name != agent.TransferTool
				named := strings.Contains(p.Arguments, `"agent_name":"a`)
				if own && (named || !m.each) || p.Name == agent.TransferTool && named && m.each {
					w.problem("request of %s: a transfer by a name that it is not offered: %v", m.name, p)
				}
			case llm.Reasoning:
				if m.history.redacts && strings.Contains(p.Text, "Hello") {
					w.problem("request of %s: not redacted: %v", m.name, msg)
				}
			}
		}
		for _, text := range texts {
			w.checkWords(m, msg, text)
		}
	}
}

func (w *world) checkWords(m *plannedModel, msg *llm.Message, text string) {
	wrong := func(what string) { w.problem("request of %s: %s: %q", m.name, what, text) }
	if strings.Contains(text, thinks) {
		wrong("a thought")
	}
	if m.history.redacts && strings.Contains(text, "Hello") {
		wrong("not redacted")
	}
	if msg.Role != llm.RoleUser {
		return
	}
	if strings.Contains(strings.ReplaceAll(text, "\n[user] [user] ", ""), "\n[user] ") { // the user's own are attributed to the user
		wrong("words that pass for the user's")
	}
	said := speaker.FindStringSubmatch(text)
	if m.inner || said == nil || said[1] == "user" {
		return
	}
	transferred := strings.HasPrefix(said[2], "transferred the conversation to you") || strings.HasPrefix(said[2], "returned the conversation to you") ||
		strings.HasPrefix(said[2], "did not accept the conversation") ||
		said[1] == agent.Human && said[2] == "handed the conversation back to you." || m.shares && strings.HasPrefix(said[2], "transferred the conversation to ") ||
		m.shares && said[1] == agent.Human && strings.HasPrefix(said[2], "handed the conversation back to ")
	called := strings.HasPrefix(said[2], "called ")
	switch known := w.names; {
	case said[1] == agent.Human && w.desk != nil && (transferred || !m.history.own):
	case !strings.HasPrefix(said[1], "a"), len(said[1]) > len(known[len(known)-1])+1:
		wrong("words of no agent of the conversation")
	case transferred && strings.HasPrefix(said[2], "transferred the conversation to you, "+m.name+": ") && w.hides[m.name]:
		wrong("a reason that is hidden")
	case transferred:
	case m.history.own, m.history.words && called:
		wrong("words of others that its policy hides")
	case called && strings.ContainsAny(text, "\r\n"):
		wrong("a line about a call that is several")
	}
}

// checkUser: a model is always asked about what the user said last.
func (w *world) checkUser(s sent) {
	if s.key != s1 || s.redacts {
		return
	}
	var last *event.User
	for _, u := range find[*event.User](w.log[:s.seq]) {
		last = u
	}
	for i := range s.req.Messages {
		m := &s.req.Messages[i]
		said, asks := m.PlainText(), i == len(s.req.Messages)-1 && candidates(s.req) != nil
		if m.Role == llm.RoleUser && (said == last.Content.PlainText() || asks && asksAbout(said, last.Content.PlainText())) {
			return
		}
	}
	w.t.Fatalf("%s at %d was not asked what the user has said last: %v", s.agent, s.seq, s.req.Messages)
}

// propertySnapshots are snapshots that nobody may trust: what is read may be there or not, of an earlier time, of
// another session, cut off, or random bytes with a checksum that is right.
type propertySnapshots struct {
	kept bool // else the store keeps none

	mu      sync.Mutex
	random  *rand.Rand // nil: what is read is what was stored
	history map[session.Key][]session.Snapshot
	read    map[string]int // what was handed out, by what it was
}

var errNoSnapshot = errors.New("the snapshot cannot be reached")

// someSnapshots draws what the snapshots of a case are like.
func (w *world) someSnapshots() *propertySnapshots {
	s := &propertySnapshots{history: make(map[session.Key][]session.Snapshot), read: make(map[string]int)}
	switch kind := oneInFour.Draw(w.rt, "snapshots"); kind {
	case 0:
		return s
	case 3:
		s.random = rand.New(rand.NewPCG(rapid.Uint64().Draw(w.rt, "hostile"), 1))
	}
	s.kept = true
	w.opts = append(w.opts, runner.WithSnapshots(rapid.SampledFrom([]int{1, 1, 5, 20}).Draw(w.rt, "every")))
	return s
}

func (s *propertyStore) KeepsSnapshots() bool { return s.snapshots != nil && s.snapshots.kept }

func (s *propertyStore) keep(ctx context.Context, key session.Key, w session.Write) (session.Lease, error) {
	s.mu.Lock()
	dead := s.died
	s.mu.Unlock()
	o := s.snapshots
	o.mu.Lock()
	defer o.mu.Unlock()
	if dead || o.random != nil && o.random.IntN(8) == 0 {
		return session.Lease{}, errStoreDied
	}
	if o.random != nil && o.random.IntN(8) == 0 {
		return w.Lease, nil // a crash of the system takes it away
	}
	before, err := s.Store.Snapshot(ctx, key)
	if err != nil {
		return session.Lease{}, err
	}
	o.history[key] = append(o.history[key], before)
	return s.Store.Write(ctx, key, w)
}

func (p *propertyStore) Snapshot(ctx context.Context, key session.Key) (session.Snapshot, error) {
	s := p.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := p.Store.Snapshot(ctx, key)
	if err != nil || found.Data == "" {
		return found, err
	}
	runner.Resealed(key, found, func(data string) string {
		var known struct{ Memos map[string]json.RawMessage }
		if json.Unmarshal([]byte(data), &known) == nil {
			for name := range known.Memos {
				kind, _, _ := strings.Cut(name, " ")
				s.read["a snapshot read: "+kind]++
			}
		}
		return data
	})
	if s.random == nil {
		s.read["a snapshot read"]++
		return found, nil
	}
	switch s.random.IntN(7) {
	case 0:
		return session.Snapshot{}, nil
	case 1:
		return session.Snapshot{}, errNoSnapshot
	case 2:
		if before := s.history[key]; len(before) > 0 {
			s.read["a stale snapshot read"]++
			return before[s.random.IntN(len(before))], nil
		}
	case 3:
		for of, other := range s.history {
			if last := other[len(other)-1]; of != key && last.Data != "" {
				s.read["a foreign snapshot read"]++
				return last, nil
			}
		}
	case 4:
		s.read["a truncated snapshot read"]++
		found.Data = found.Data[:s.random.IntN(len(found.Data))]
	case 5:
		s.read["a hostile snapshot read"]++
		found = runner.Resealed(key, found, func(data string) string {
			hostile := []byte(data[:s.random.IntN(1+len(data)/2)])
			for range 64 + s.random.IntN(200) {
				hostile = append(hostile, byte(s.random.Uint32()>>s.random.IntN(32)))
			}
			return string(hostile)
		})
	}
	return found, nil
}
