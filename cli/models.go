package cli

import (
	"context"
	"errors"
	"iter"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
)

// models are those that the flags and the environment describe.
type models struct {
	offline  llm.Model     // answers for all agents; nil if there is an endpoint
	base     *openai.Model // of the endpoint
	override string        // --model
	key      string        // OPENAI_API_KEY
	used     bool          // an agent has one of the models
	// missing is the error of an agent without a model, kept so that all other
	// problems of a tree are reported first.
	missing error
}

// modelFlag adds --model, and those of the endpoint's tape.
func (p *program) modelFlag(fs *pflag.FlagSet, model *string) {
	if !p.ownModel {
		fs.StringVar(model, "model", "", "use the model `NAME` for all agents, instead of OPENAI_MODEL and the names in the files")
		p.tapeFlags(fs)
	}
}

// models reads the environment. Without an endpoint the offline model answers, in
// this process. override is the name that --model gives.
func (p *program) models(override string) (*models, error) {
	m := &models{override: override, key: p.Getenv("OPENAI_API_KEY")}
	getenv, opts, err := p.endpoint()
	if err != nil {
		return nil, err
	}
	base, err := openai.FromEnv(getenv, m.override, opts...)
	switch {
	case err == nil:
		m.base = base
		return m, nil
	case errors.Is(err, openai.ErrNoEndpoint) && m.override == "":
		m.offline = offline.New()
		return m, nil
	case errors.Is(err, openai.ErrNoEndpoint):
		return nil, usagef("--model is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	// A missing name matters only if an agent needs it.
	if m.base, _ = openai.FromEnv(getenv, "unnamed", opts...); m.base == nil {
		return nil, usageError{err}
	}
	m.missing = usagef("%w; or give --model NAME", err)
	return m, nil
}

// notice says once if no model is used, unless all agents are remote.
func (c *conversation) notice() {
	if c.noted || c.planted == nil || c.models == nil || c.models.offline == nil || !c.models.used {
		return
	}
	c.noted = true
	c.p.sayOffline()
}

// sayOffline says who answers in place of a model.
func (p *program) sayOffline() {
	p.say("no model is used: these answers come from the offline model, which only compares words. " +
		"Set OPENAI_API_KEY or OPENAI_BASE_URL, and OPENAI_MODEL, to use one.")
}

// named returns the model of a name; "" is the default one. needed is called
// when there is no default.
func (m *models) named(name string, needed func()) (llm.Model, error) {
	m.used = true
	switch {
	case m.offline != nil:
		return m.offline, nil
	case m.override != "":
		name = m.override
	case name == "" && m.missing != nil:
		needed()
		return noModel{}, nil
	case name == "":
		name = m.base.Name()
	}
	return guard(m.base.Named(name), m.key), nil
}

// noModel is a model that is named but not called.
type noModel struct{ name string }

func (m noModel) Name() string        { return m.name }
func (m noModel) Models() []llm.Model { return nil } // so that it needs no price

func (m noModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "there is no model: OPENAI_MODEL is not set"})
	}
}

// unused resolves model names for commands that call no model.
func unused(name string) (llm.Model, error) { return noModel{name}, nil }
