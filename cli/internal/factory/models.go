package factory

import (
	"context"
	"errors"
	"iter"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
)

// Answers names the model that answers in a tree, "" if the tree has its own.
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

// Models are those that the flags and the environment describe.
type Models struct {
	offline  llm.Model     // answers for all agents; nil if there is an endpoint
	Base     *openai.Model // of the endpoint
	override string        // --model
	key      string        // OPENAI_API_KEY
	used     bool          // an agent has one of the models
	// Missing is the error of an agent without a model, kept so that all other
	// problems of a tree are reported first.
	Missing error
}

// ModelFlag adds --model, and those of the endpoint's tape.
func (f *Factory) ModelFlag(fs *pflag.FlagSet, model *string) {
	if !f.OwnModel {
		fs.StringVar(model, "model", "", "use the model `NAME` for all agents, instead of OPENAI_MODEL and the names in the files")
		TapeFlags(f, fs)
	}
}

// Models reads the environment. Without an endpoint the offline model answers, in
// this process. override is the name that --model gives.
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

// Notice says whether no model answers for a tree, unless all its agents are remote.
func (f *Factory) Notice(t *LoadedTree) (said bool) {
	if t == nil || !t.IsOffline() {
		return false
	}
	f.Say("no model is used: these answers come from the offline model, which only compares words. " +
		"Set OPENAI_API_KEY or OPENAI_BASE_URL, and OPENAI_MODEL, to use one.")
	return true
}

// Named returns the model of a name; "" is the default one. needed is called
// when there is no default.
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

// NoModel is a model that is named but not called.
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
