package replay

import (
	"context"
	"encoding/json"
	"iter"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/chatform"
	"github.com/agentarbor/arbor/internal/testing/transcript"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

var key = session.ID("s1")

// unasked is a model that must not be asked.
type unasked struct {
	t    testing.TB
	name string
}

func (m unasked) Name() string { return m.name }

func (m unasked) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.t.Error("a model is asked: " + m.name)
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest}) }
}

// played plays a transcript and returns its log.
func played(t *testing.T, tr *transcript.Transcript, asked *notes, opts ...runner.Option) *Log {
	script, err := scripted.Parse([]byte(tr.Section("script")))
	require.NoError(t, err)
	root := transcript.Tree(t, tr.Section("agents"), func(name string) llm.Model {
		return noting{script.Model(name), func(req *llm.Request) { asked.add(name, req) }}
	})
	store := sessiontest.Memory(t)
	r, err := runner.New(root, store, opts...)
	require.NoError(t, err)
	var calls transcript.Calls
	for message := range strings.Lines(tr.Section("user")) {
		turn := r.Run(t.Context(), key, llm.UserText(strings.TrimSuffix(message, "\n")))
		if decision, ok := strings.CutPrefix(message, "/"); ok {
			r, err = runner.New(root, store, opts...)
			require.NoError(t, err)
			turn = r.Resume(t.Context(), key, transcript.Decisions(decision, calls)...)
		}
		for e := range turn { // how it ends is in the log
			if e != nil && !e.Partial {
				calls.Add(e)
			}
		}
	}
	return read(t, store)
}

func read(t testing.TB, store session.Store) *Log {
	l, err := Read(key, store.Load(t.Context(), key, 0))
	require.NoError(t, err)
	return l
}

func told(t testing.TB, r *Result) string {
	b, err := json.MarshalIndent(r, "", "  ")
	require.NoError(t, err)
	return string(b)
}

// Each transcript comes out as it was when it is replayed with its own tree, and no model is asked.
func TestTranscriptsAreTheSame(t *testing.T) {
	for _, tr := range transcript.All(t, "../../runner/testdata/*/*.txtar") {
		for name, opts := range map[string][]runner.Option{"whole": nil, "streamed": {runner.WithStreaming()}} {
			t.Run(tr.Name()+", "+name, func(t *testing.T) {
				then, now := &notes{}, &notes{}
				l := played(t, tr, then, opts...)
				tree := func() agent.Agent {
					return transcript.Tree(t, tr.Section("agents"), func(name string) llm.Model { return unasked{t, name} })
				}
				r, err := Play(t.Context(), l, tree())
				require.NoError(t, err)
				require.True(t, r.Same(), told(t, r))
				require.NotZero(t, r.Turns)
				r, err = Play(t.Context(), l, tree(), Against(tree()))
				require.NoError(t, err)
				require.True(t, r.Same(), told(t, r))
				require.True(t, r.Compared)

				p := newPlayer(l, &config{})
				p.asks = func(a *ask) *Difference {
					now.add(a.model, a.request)
					return nil
				}
				require.NoError(t, p.play(t.Context(), tree()))
				require.Equal(t, then.of, now.of)
			})
		}
	}
}

// noting is a model that notes what it is asked.
type noting struct {
	llm.Model
	note func(*llm.Request)
}

func (m noting) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	m.note(req)
	return m.Model.Generate(ctx, req)
}

// notes are requests by agent, without those that are repeated as they were.
type notes struct {
	sync.Mutex
	of map[string][]string
}

func (n *notes) add(agent string, req *llm.Request) {
	n.Lock()
	defer n.Unlock()
	if n.of == nil {
		n.of = make(map[string][]string)
	}
	text := ids.ReplaceAllString(string(event.EncodeJSON(chatform.RequestOf(req)))+string(event.EncodeJSON(chatform.Settings(req.Settings))), "ID")
	if all := n.of[agent]; len(all) == 0 || all[len(all)-1] != text {
		n.of[agent] = append(n.of[agent], text)
	}
}

// ids are those that the runner makes.
var ids = regexp.MustCompile(`\b[0-9a-hjkmnp-tv-z]{12}\b`)
