package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/llm"
)

// Model is a model of an OpenAI-compatible endpoint. It is safe for concurrent use. It prints without secrets in every
// format. The zero value is not usable; see [New].
type Model struct {
	name string
	// It is a function, because fmt prints everything else: a format such as %q, applied to a struct with a Model in an
	// unexported field, would print the key.
	endpoint func() *client
}

var _ llm.Model = (*Model)(nil)

// client is shared by all models of one endpoint.
type client struct {
	config
	url     string      // the URL of requests, with its secrets
	where   string      // the host and path of the endpoint, for people
	secrets []string    // must not be shown
	form    requestForm // of the options or the address
	habits  sync.Map    // by model, of *habit
}

// New returns the model with this name at an endpoint. It does not check the name: the first call fails if the endpoint
// does not know it. Without options the endpoint is OpenAI's, and no key is sent.
func New(model string, opts ...Option) (*Model, error) {
	if strings.TrimSpace(model) == "" {
		return nil, errors.New("openai: the model's name is empty")
	}
	c := &client{config: defaults()}
	if err := option.Apply(&c.config, opts); err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	u, err := c.check()
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	c.timeouts = c.timeouts.Or(defaultTimeouts)
	c.secrets = secretsOf(&c.config, u)
	u.Path = strings.TrimSuffix(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), chatPath), responsesPath) + c.path()
	u.RawPath, u.Fragment = "", ""
	c.url, c.where = u.String(), u.Host+u.EscapedPath()
	if c.endpoint == nil {
		if name := providerAt(u.Hostname()); name != "" {
			c.endpoint = []string{name}
		}
	}
	c.form, _ = named(c.endpoint) // the names were checked
	c.http = prepareHTTP(c.http)
	return &Model{name: model, endpoint: func() *client { return c }}, nil
}

// Name returns the model's name at the endpoint.
func (m *Model) Name() string { return m.name }

// Named returns another model of the same endpoint, with the same options and
// connections.
func (m *Model) Named(name string) *Model { return &Model{name: name, endpoint: m.endpoint} }

// String returns the model's name and its endpoint, without secrets.
func (m Model) String() string {
	if m.endpoint == nil {
		return "openai.Model()"
	}
	return fmt.Sprintf("openai.Model(%s at %s)", m.name, m.endpoint().where)
}

// GoString returns the same as String, because the Go syntax of a Model would contain its key.
func (m Model) GoString() string { return m.String() }

// LogValue returns the name and the endpoint.
func (m Model) LogValue() slog.Value {
	if m.endpoint == nil {
		return slog.StringValue(m.String())
	}
	return slog.GroupValue(slog.String("model", m.name), slog.String("endpoint", m.endpoint().where))
}

// errStop means that the consumer has broken out of the sequence.
var errStop = errors.New("openai: the consumer stopped")

// Generate asks the endpoint for one answer; see llm.Model. Each iteration of the sequence sends the request once.
func (m *Model) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		err := m.generate(ctx, req, func(c llm.Chunk) error {
			if !yield(c, nil) {
				return errStop
			}
			return nil
		})
		if err == nil || errors.Is(err, errStop) {
			return
		}
		yield(llm.Chunk{}, err)
	}
}

func (m *Model) generate(ctx context.Context, req *llm.Request, yield func(llm.Chunk) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := m.endpoint()
	w, err := c.write(m.name, req)
	if err != nil {
		return err
	}
	a, err := c.sendWithRetries(ctx, w)
	if err != nil {
		return err
	}
	defer a.close()
	if err = a.read(yield); err != nil && !errors.Is(err, errStop) {
		err = cmp.Or(ctx.Err(), err)
	}
	return err
}
