package serve

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/runner"
)

// measured begins to measure, if serve is to, and returns who hears of it, nil without.
func measured(f *factory.Factory, how *options) (factory.Metrics, []door, error) {
	if how.metrics == "" {
		return factory.Metrics{}, nil, nil
	}
	l, err := listen(f, "--metrics", how.metrics)
	if err != nil {
		return factory.Metrics{}, nil, err
	}
	m, err := f.Metrics()
	if err != nil {
		return m, nil, err
	}
	f.RunnerOptions = append(f.RunnerOptions, runner.WithInterceptors(m.Interceptor))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler)
	f.Say("metrics at http://%s/metrics", reachable(l.Addr()))
	return m, []door{webDoor(l, mux, nil)}, nil
}

// logFormats are what --log knows.
const logFormats = "text or json"

// requestLog returns a logger for a line a request, nil without --log.
func (how *options) requestLog(w io.Writer) (*slog.Logger, error) {
	switch how.log {
	case "":
		return nil, nil
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	}
	return nil, factory.Usagef("--log %s: the format is %s", how.log, logFormats)
}
