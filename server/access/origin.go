package access

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/httptoken"
)

// hostName returns the host of a "host:port", in lower case, without brackets and final dot.
func hostName(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isLoopbackName reports whether a host is always this machine. Names below localhost always resolve to loopback (RFC
// 6761, section 6.3).
func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// CheckHost refuses requests for a host that is not the server's, as a protection against DNS rebinding: a web page can
// point its own name at 127.0.0.1, and the browser then sends requests to this server as if it were the page's. Requests
// on a loopback address must name loopback or a configured host. If a host is configured, requests of browsers must name
// it, or an IP address, on every address. The error is a *[RefusedError] that says what to configure.
func (g *Guard) CheckHost(r *http.Request) error {
	host := hostName(r.Host)
	if isLoopbackName(host) || slices.Contains(g.opts.Hosts, host) {
		return nil
	}
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return refusef(http.StatusMisdirectedRequest,
			"the request arrived on a loopback address but names the host %.64q: if that is the server's name, set its public URL", host)
	}
	browser := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	if browser && len(g.opts.Hosts) > 0 && net.ParseIP(host) == nil {
		return refusef(http.StatusMisdirectedRequest, "%.64q is not a name of this server", host)
	}
	return nil
}

// sameOrigin reports whether the request comes from the server's own page, or not from a page at all.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		// Browsers omit Origin in plain GETs and send this header instead.
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "same-origin" || site == "none"
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// CheckOrigin refuses requests from web pages of other origins, to which browsers add credentials automatically: cookies,
// client certificates, and access to this machine. For allowed origins it sets the headers of the Fetch standard. The
// error is a *[RefusedError].
func (g *Guard) CheckOrigin(w http.ResponseWriter, r *http.Request) error {
	w.Header().Add("Vary", "Origin")
	if sameOrigin(r) {
		return nil
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return refusef(http.StatusForbidden, "requests of other origins (%.64s) are not allowed", r.Header.Get("Sec-Fetch-Site"))
	}
	origin := strings.ToLower(origins[0])
	if len(origins) > 1 || !slices.Contains(g.opts.Origins, origin) && (origin == "null" || !slices.Contains(g.opts.Origins, "*")) {
		return refusef(http.StatusForbidden, "requests of the origin %.64q are not allowed", origins[0])
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	if len(g.opts.Expose) > 0 {
		h.Set("Access-Control-Expose-Headers", strings.Join(g.opts.Expose, ", "))
	}
	return nil
}

// Preflight answers the preflight request of a browser after [Guard.CheckOrigin] has allowed its origin. methods are the
// served methods, in the form of the header Allow.
func (g *Guard) Preflight(w http.ResponseWriter, r *http.Request, methods string) {
	h := w.Header()
	h.Set("Allow", methods)
	if h.Get("Access-Control-Allow-Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", methods)
		h.Set("Access-Control-Max-Age", "600")
		h.Add("Vary", "Access-Control-Request-Headers")
		var names []string
		for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
			if name = strings.TrimSpace(name); httptoken.Valid(name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			h.Set("Access-Control-Allow-Headers", strings.Join(names, ", "))
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
