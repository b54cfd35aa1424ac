package cli

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/runner"
)

// Metrics are what serve measures: package telemetry makes the interceptor and the observer.
type Metrics struct {
	Interceptor agent.Interceptor
	Observer    access.Observer
	// Handler answers at the path /metrics.
	Handler http.Handler
}

// WithMetrics gives serve the flag --metrics.
func WithMetrics(of func() (Metrics, error)) Option { return func(p *program) { p.metrics = of } }

// measured begins to measure, if serve is to, and returns who hears of it, nil without.
func (p *program) measured(how *serving) (Metrics, []door, error) {
	if how.metrics == "" {
		return Metrics{}, nil, nil
	}
	l, err := p.listen("--metrics", how.metrics)
	if err != nil {
		return Metrics{}, nil, err
	}
	m, err := p.metrics()
	if err != nil {
		return m, nil, err
	}
	p.runnerOptions = append(p.runnerOptions, runner.WithInterceptors(m.Interceptor))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler)
	p.say("metrics at http://%s/metrics", reachable(l.Addr()))
	return m, []door{webDoor(l, mux, nil)}, nil
}

// logFormats are what --log knows.
const logFormats = "text or json"

// requestLog returns a logger for a line a request, nil without --log.
func (how *serving) requestLog(w io.Writer) (*slog.Logger, error) {
	switch how.log {
	case "":
		return nil, nil
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, usagef("--log %s: the format is %s", how.log, logFormats)
}
