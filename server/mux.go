package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/server/internal/front"
)

type below struct {
	http.Handler
	prefix string
}

// At puts a handler below a prefix, such as /metrics, for [Mux]. The handler gets the whole path, prefix included.
func At(prefix string, h http.Handler) http.Handler { return below{h, prefix} }

// Health serves two paths without authentication: /healthz answers 200 while the process runs, and /readyz answers
// 200 if turns can be served, that is if the store answers and no drain is in progress. [Mux] adds it for a [Door];
// use it for a program without one.
func Health(turns *live.Turns) http.Handler { return health{turns} }

type health struct{ turns *live.Turns }

// Mux serves handlers at one address, each below its prefix; the longest prefix wins. A handler without a prefix,
// that is neither a door nor made by [At], serves all other paths. With a [Door], Mux adds the paths of [Health].
func Mux(doors ...http.Handler) http.Handler {
	var m mux
	for _, h := range doors {
		switch d := h.(type) {
		case below:
			m = append(m, d)
		case health:
			m = append(m, d.below()...)
		case *Door:
			m = append(append(m, below{d, d.Prefix()}), health{d.turns}.below()...)
		case interface{ Prefix() string }:
			m = append(m, below{h, d.Prefix()})
		default:
			m = append(m, below{h, ""})
		}
	}
	slices.SortStableFunc(m, func(a, b below) int { return len(b.prefix) - len(a.prefix) })
	return m
}

func (h health) below() []below {
	return []below{{front.Health(nil), "/healthz"}, {front.Health(front.Ready(h.turns)), "/readyz"}}
}

func (h health) ServeHTTP(w http.ResponseWriter, r *http.Request) { mux(h.below()).ServeHTTP(w, r) }

type mux []below

func (m mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, d := range m {
		if rest, ok := strings.CutPrefix(r.URL.Path, d.prefix); ok && (rest == "" || rest[0] == '/') {
			d.ServeHTTP(w, r)
			return
		}
	}
	front.WriteProblem(w, &front.Fault{Status: http.StatusNotFound, Code: "not_found", Detail: "there is nothing at this path"}, "")
}
