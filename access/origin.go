package access

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/httptoken"
)

// hostName is the host of a "host:port", in lower case, without brackets and final dot.
func hostName(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isLoopbackName tells whether a host can be nothing but this machine. Names below localhost
// are resolved by nobody else (RFC 6761, section 6.3).
func isLoopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// CheckHost refuses requests to a name that is not the server's, where that name gives away an
// attack: a web page can let a name of its own point at 127.0.0.1, and the browser takes
// it for the page's own server then (DNS rebinding). Requests that arrive on loopback must
// name loopback or a configured host; so must requests of browsers wherever they arrive, if a
// host is configured, unless they name an address. The error is a *[RefusedError], and says
// what to configure, because whoever meets it is most often somebody who sets up a server.
func (g *Guard) CheckHost(r *http.Request) error {
	host := hostName(r.Host)
	if isLoopbackName(host) || slices.Contains(g.opts.Hosts, host) {
		return nil
	}
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return refusef(http.StatusMisdirectedRequest,
			"the request came in on a loopback address and names the host %.64q: set the server's public URL if that is its name", host)
	}
	browser := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	if browser && len(g.opts.Hosts) > 0 && net.ParseIP(host) == nil {
		return refusef(http.StatusMisdirectedRequest, "this server is not known as %.64q", host)
	}
	return nil
}

// sameOrigin tells whether no browser says that a page of another origin makes it send the request.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		// Browsers leave Origin out of plain GETs and say this instead.
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "same-origin" || site == "none"
	}
	u, err := url.Parse(origins[0])
	return err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// CheckOrigin refuses requests that a web page of another origin makes a browser send, because
// they carry what the browser adds unasked: cookies, client certificates, and the trust in
// whoever sits at this machine. Origins that are allowed get the headers of the Fetch standard.
// The error is a *[RefusedError].
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

// Preflight answers what browsers ask before they send a request of another origin that
// [Guard.CheckOrigin] has let through. The methods are those that are served, in the form of
// the header Allow.
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
