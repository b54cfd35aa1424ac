package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/live"
)

type mount struct {
	http.Handler
	prefix string
}

// At mounts a handler at a prefix, such as /metrics, for [Mux]. The handler gets the whole path, including the prefix.
func At(prefix string, h http.Handler) http.Handler { return mount{h, prefix} }

// Health serves two paths without authentication: /healthz answers 200 while the process runs, and /readyz answers
// 200 if the store accepts writes and no drain is in progress, and 503 otherwise. [Mux] adds it for a [Handler]; use
// it for a program without one.
func Health(turns *live.Turns) http.Handler { return health{turns} }

type health struct{ turns *live.Turns }

// Mux serves handlers at one address, each below its prefix; the longest prefix wins. A handler without a prefix,
// that [At] did not create, serves all other paths. If one of them is a [Handler], Mux adds the paths of [Health].
func Mux(handlers ...http.Handler) http.Handler {
	var m mux
	for _, h := range handlers {
		switch d := h.(type) {
		case mount:
			m = append(m, d)
		case health:
			m = append(m, d.mounts()...)
		case *Handler:
			m = append(append(m, mount{d, d.Prefix()}), health{d.turns}.mounts()...)
		case interface{ Prefix() string }:
			m = append(m, mount{h, d.Prefix()})
		default:
			m = append(m, mount{h, ""})
		}
	}
	slices.SortStableFunc(m, func(a, b mount) int { return len(b.prefix) - len(a.prefix) })
	return m
}

func (h health) mounts() []mount {
	return []mount{{front.Health(nil), "/healthz"}, {front.Health(front.Ready(h.turns)), "/readyz"}}
}

func (h health) ServeHTTP(w http.ResponseWriter, r *http.Request) { mux(h.mounts()).ServeHTTP(w, r) }

type mux []mount

var slashes = lazyregexp.New("//+")

// ServeHTTP implements http.Handler. Several slashes in a row, which clients get by joining addresses, are one.
func (m mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.EscapedPath(); strings.Contains(p, "//") {
		u := *r.URL
		u.RawPath = slashes.Get().ReplaceAllString(p, "/")
		u.Path, _ = url.PathUnescape(u.RawPath) // it was parsed from a request
		r = r.WithContext(r.Context())
		r.URL = &u
	}
	for _, d := range m {
		if rest, ok := strings.CutPrefix(r.URL.Path, d.prefix); ok && (rest == "" || rest[0] == '/') {
			d.ServeHTTP(w, r)
			return
		}
	}
	front.WriteProblem(w, &front.Fault{Status: http.StatusNotFound, Code: "not_found", Detail: "no route matches this path"}, "")
}
