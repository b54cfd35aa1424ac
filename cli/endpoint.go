package cli

import (
	"context"
	"errors"
	"iter"

	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/llm/openai/endpoint"
)

// endpointModels are the models that the flags and the environment describe.
type endpointModels struct {
	base     *openai.Model
	override string // --model
	key      string // OPENAI_API_KEY
	offline  bool
	used     bool // an agent has one of the models
	// missing is the error of an agent without a model, kept so that all other
	// problems of a tree are told first.
	missing error
}

// models reads the environment. Without an endpoint it serves the offline model
// on loopback, so that the way of a request is always the same.
func (p *program) models() (*endpointModels, error) {
	m := &endpointModels{override: p.flags.model, key: p.Getenv("OPENAI_API_KEY")}
	base, err := openai.FromEnv(p.Getenv, m.override)
	switch {
	case err == nil:
		m.base = base
		return m, nil
	case errors.Is(err, openai.ErrNoEndpoint) && m.override == "":
		return m, p.serveOffline(m)
	case errors.Is(err, openai.ErrNoEndpoint):
		return nil, usagef("--model is given, but there is no endpoint: set OPENAI_API_KEY or OPENAI_BASE_URL")
	}
	// A missing name matters only if an agent needs it.
	if m.base, _ = openai.FromEnv(p.Getenv, "unnamed"); m.base == nil {
		return nil, usageError{err}
	}
	m.missing = usagef("%w; or give --model NAME", err)
	return m, nil
}

func (p *program) serveOffline(m *endpointModels) error {
	model := offline.New()
	server, err := endpoint.Start(func(string) (llm.Model, bool) { return model, true })
	if err != nil {
		return err
	}
	p.atEnd(func() { _ = server.Close() })
	m.offline = true
	m.base, err = openai.New(model.Name(), openai.WithBaseURL(server.URL()))
	return err
}

// notice says once if no model is used, unless all agents are remote.
func (c *conversation) notice() {
	if c.noted || c.models == nil || !c.models.offline || !c.models.used {
		return
	}
	c.noted = true
	c.p.say("no model is used: these answers come from the offline model, which only compares words. " +
		"Set OPENAI_API_KEY or OPENAI_BASE_URL, and OPENAI_MODEL, to use one.")
}

// named returns the model of a name; "" is the default one. needed is called
// when there is no default.
func (m *endpointModels) named(name string, needed func()) (llm.Model, error) {
	m.used = true
	switch {
	case m.offline:
		return m.base, nil
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

// noModel stands where a model is named but not called.
type noModel struct{ name string }

func (m noModel) Name() string { return m.name }

func (m noModel) Generate(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeBadRequest, Message: "there is no model: OPENAI_MODEL is not set"})
	}
}

// unused resolves model names for commands that call no model.
func unused(name string) (llm.Model, error) { return noModel{name}, nil }
