package factory

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/cassette"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
)

// Answers returns the name of the model that answers in a tree, "" if the tree has its own models.
func (t *LoadedTree) Answers() string {
	switch {
	case t.Models == nil || !t.Models.used:
		return ""
	case t.Models.offline != nil:
		return t.Models.offline.Name()
	case t.Models.override != "":
		return t.Models.override
	case t.Models.Missing != nil:
		return ""
	}
	return t.Models.Base.Name()
}

// Models are the models that the flags and the environment describe.
type Models struct {
	offline  llm.Model     // answers for all agents; nil if there is an endpoint
	Base     *openai.Model // of the endpoint
	override string        // --model
	key      string        // OPENAI_API_KEY
	used     bool          // an agent uses one of the models
	// Missing is the error of an agent without a model. It is kept so that all other problems of a tree are reported
	// first.
	Missing error
}

// ModelFlag adds --model, and the flags for recordings of the endpoint.
func (f *Factory) ModelFlag(fs *pflag.FlagSet) {
	if !f.OwnModel {
		fs.StringVarP(&f.Model, "model", "m", "", "use the model `NAME` for all agents, instead of OPENAI_MODEL and the names in the files")
		TapeFlags(f, fs)
	}
}

// Models reads the environment. Without an endpoint the offline model answers, in this process. override is the value
// of --model.
func (f *Factory) Models(override string) (*Models, error) {
	m := &Models{override: override, key: f.Getenv("OPENAI_API_KEY")}
	getenv, opts, err := endpoint(f)
	if err != nil {
		return nil, err
	}
	base, err := openai.FromEnv(getenv, m.override, opts...)
	switch {
	case err == nil:
		m.Base = base
		return m, nil
	case errors.Is(err, openai.ErrNoEndpoint) && m.override == "":
		m.offline = offline.New()
		return m, nil
	case errors.Is(err, openai.ErrNoEndpoint):
		return nil, Usagef("--model is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	// A missing name matters only if an agent needs it.
	if m.Base, _ = openai.FromEnv(getenv, "unnamed", opts...); m.Base == nil {
		return nil, Usage(err)
	}
	m.Missing = Usagef("%w; or give --model NAME", err)
	return m, nil
}

// IsOffline reports whether the offline model answers for agents of the tree.
func (t *LoadedTree) IsOffline() bool {
	return t.Models != nil && t.Models.offline != nil && t.Models.used
}

// Notice prints that the offline model answers for a tree, if it does, and reports whether it does.
func (f *Factory) Notice(t *LoadedTree) (said bool) {
	if t == nil || !t.IsOffline() {
		return false
	}
	f.Say("no model is used: these answers come from the offline model, which only compares words. " +
		"Set OPENAI_API_KEY or OPENAI_BASE_URL, and OPENAI_MODEL, to use one.")
	return true
}

// Named returns the model with a name; "" means the default model. It calls needed if there is no default.
func (m *Models) Named(name string, needed func()) (llm.Model, error) {
	m.used = true
	switch {
	case m.offline != nil:
		return m.offline, nil
	case m.override != "":
		name = m.override
	case name == "" && m.Missing != nil:
		needed()
		return NoModel{}, nil
	case name == "":
		name = m.Base.Name()
	}
	return guard(m.Base.Named(name), m.key), nil
}

// NoModel is a model that is named but never called.
type NoModel struct{ Called string }

func (m NoModel) Name() string { return m.Called }

func (m NoModel) Models() []llm.Model { return nil } // so that it needs no price

func (m NoModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "there is no model: OPENAI_MODEL is not set"})
	}
}

// Unused resolves model names for commands that call no model.
func Unused(name string) (llm.Model, error) { return NoModel{Called: name}, nil }

// leastSecret is the length from which a key is removed from answers. Shorter ones are not secret: local endpoints
// accept any word as a key, and removing such a word would damage answers.
const leastSecret = 10

// guarded removes an endpoint's key from the answers of its models, so that an endpoint that repeats it cannot write it
// to the log.
type guarded struct {
	llm.Model
	key string
}

// guard returns the model, guarded if the key is long enough.
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

// scrubber removes a key from a text that comes in pieces.
type scrubber struct{ key, held string }

// next returns the text that can be shown after this piece. Unless the piece is the last one, it holds back an end that
// may be the beginning of the key.
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

// tape contains the flags for recording the models' endpoint in a file.
type tape struct {
	Record, Replay string // files; "" if not given
	client         *http.Client
	player         *cassette.Player
}

// TapeFlags adds the flags for recording the endpoint and for its timeouts.
func TapeFlags(f *Factory, fs *pflag.FlagSet) {
	fs.StringVar(&f.Tape.Record, "record", "", "record the requests to the model endpoint and its answers in `FILE`")
	fs.StringVar(&f.Tape.Replay, "replay", "", "answer from `FILE`, a recording of --record, without an endpoint")
	fs.DurationVar(&f.timeouts.First, "timeout-first", 0, "wait at most `TIME` for the first text of a streamed answer (default 5m; negative: no limit)")
	fs.DurationVar(&f.timeouts.Silence, "timeout-silence", 0, "wait at most `TIME` between two parts of a streamed answer (default 1m; negative: no limit)")
	fs.DurationVar(&f.timeouts.Answer, "timeout-answer", 0, "wait at most `TIME` for a whole answer (default 10m; negative: no limit)")
}

// endpoint returns the environment that describes the models' endpoint, and the options of the flags.
func endpoint(f *Factory) (getenv func(string) string, opts []openai.Option, err error) {
	t := &f.Tape
	switch {
	case t.Record == "" && t.Replay == "":
		return f.Getenv, []openai.Option{openai.WithTimeouts(f.timeouts)}, nil
	case t.Record != "" && t.Replay != "":
		return nil, nil, Usagef("--record and --replay exclude each other: give only one of them")
	case t.Record != "" && f.Getenv("OPENAI_BASE_URL") == "" && f.Getenv("OPENAI_API_KEY") == "":
		return nil, nil, Usagef("--record is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	case t.client == nil:
		if err := openTape(f); err != nil {
			return nil, nil, Usage(err)
		}
	}
	getenv = f.Getenv
	if t.player != nil {
		getenv = t.described(f.Getenv)
	}
	return getenv, []openai.Option{openai.WithTimeouts(f.timeouts), openai.WithHTTPClient(t.client)}, nil
}

func openTape(f *Factory) error {
	t := &f.Tape
	if t.Record != "" {
		r, err := cassette.Record(t.Record, nil)
		if err != nil {
			return err
		}
		f.AtEnd(func() {
			if err := r.Close(); err != nil {
				f.Say("not everything was recorded: %s", err)
			}
		})
		t.client = &http.Client{Transport: r}
		return nil
	}
	player, err := cassette.Replay(t.Replay)
	if err != nil {
		return err
	}
	if path, _ := player.First(); path == "" {
		return errors.New(t.Replay + ": nothing was recorded")
	}
	t.player, t.client = player, &http.Client{Transport: player}
	return nil
}

// described returns the environment of the recorded endpoint, whatever the current one is. OPENAI_MODEL still applies:
// a request for another model was not recorded.
func (t *tape) described(getenv func(string) string) func(string) string {
	path, body := t.player.First()
	api := "chat"
	base, ok := strings.CutSuffix(path, "/chat/completions")
	if !ok {
		base, ok = strings.CutSuffix(path, "/responses")
		if ok {
			api = "responses"
		}
	}
	var asked struct{ Model string }
	_ = json.Unmarshal(body, &asked) // if this fails, no model is known
	return func(name string) string {
		switch name {
		case "OPENAI_BASE_URL":
			return "http://replayed.invalid" + base
		case "OPENAI_API":
			return api
		case "OPENAI_MODEL":
			if given := getenv(name); given != "" {
				return given
			}
			return asked.Model
		}
		return getenv(name)
	}
}
