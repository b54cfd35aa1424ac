package a2aserver

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// errOrigin refuses a request for where it comes from. It says what to configure, because
// whoever meets it is most often somebody who sets up a server.
func errOrigin(status int, format string, a ...any) error {
	return newHTTPError(status, -31403, "PERMISSION_DENIED", "ORIGIN_NOT_ALLOWED", format, a...)
}

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

// checkHost refuses requests to a name that is not the server's, where that name gives away an
// attack: a web page can let a name of its own point at 127.0.0.1, and the browser takes
// it for the page's own server then (DNS rebinding). Requests that arrive on loopback must
// name loopback or the configured host; so must requests of browsers wherever they
// arrive, if a host is configured, unless they name an address.
func (f *frontHandler) checkHost(r *http.Request) error {
	host := hostName(r.Host)
	if isLoopbackName(host) || slices.Contains(f.hosts, host) {
		return nil
	}
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		return errOrigin(http.StatusMisdirectedRequest,
			"the request came in on a loopback address and names the host %q: set the server's public URL if that is its name", clipKey(host))
	}
	browser := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	if browser && len(f.hosts) > 0 && net.ParseIP(host) == nil {
		return errOrigin(http.StatusMisdirectedRequest, "this server is not known as %q", clipKey(host))
	}
	return nil
}

// checkOrigin refuses requests that a web page of another origin makes a browser send, because
// they carry what the browser adds unasked: cookies, client certificates, and the trust in
// whoever sits at this machine. Origins that are allowed get the headers of the Fetch standard.
func (f *frontHandler) checkOrigin(w http.ResponseWriter, r *http.Request) error {
	w.Header().Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		// Browsers leave Origin out of plain GETs and say this instead.
		switch site := r.Header.Get("Sec-Fetch-Site"); site {
		case "", "same-origin", "none":
			return nil
		default:
			return errOrigin(http.StatusForbidden, "requests of other origins (%s) are not allowed", clipKey(site))
		}
	}
	origin := strings.ToLower(origins[0])
	u, err := url.Parse(origin)
	if err == nil && len(origins) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	if len(origins) > 1 || !slices.Contains(f.origins, origin) && (origin == "null" || !slices.Contains(f.origins, "*")) {
		return errOrigin(http.StatusForbidden, "requests of the origin %q are not allowed", clipKey(origins[0]))
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origins[0])
	h.Set("Access-Control-Expose-Headers", "A2A-Extensions, WWW-Authenticate, Retry-After, ETag, Last-Modified")
	return nil
}

// preflight answers what browsers ask before they send a request of another origin that was
// let through by checkOrigin.
func preflight(w http.ResponseWriter, r *http.Request, allow string) {
	h := w.Header()
	h.Set("Allow", allow)
	if h.Get("Access-Control-Allow-Origin") != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Max-Age", "600")
		h.Add("Vary", "Access-Control-Request-Headers")
		var names []string
		for name := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
			if name = strings.TrimSpace(name); isToken(name) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			h.Set("Access-Control-Allow-Headers", strings.Join(names, ", "))
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
