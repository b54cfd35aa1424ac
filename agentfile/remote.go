package agentfile

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/confined"
)

// checkRemote reports the problems of the variables that a remote agent needs. It fetches nothing. No message contains
// the value of a variable.
func (l *config) checkRemote(r *report, d *definition) {
	before := len(r.problems)
	for _, v := range d.remote.values() {
		resolved := l.resolved(v)
		if !l.checkVariable(r, d, v) || v.variable == "" || resolved == "" || !v.isAddress() {
			continue
		}
		if u, err := url.Parse(resolved); err != nil || !absolute(u) {
			r.add(d.file, v.at, "the environment variable %s holds no http or https address", v.variable)
		}
	}
	if len(r.problems) == before {
		if _, err := l.certificate(d); err != nil {
			r.add(d.file, d.remote.certificate.cert.at, "auth.certificate cannot be used: %s", err)
		}
	}
	if len(r.problems) > before || !d.remote.address.present() || agent.CheckName(d.name) != nil {
		return
	}
	if _, err := l.remoteAgent(d); err != nil { // for example, a name that no cookie can have
		r.add(d.file, d.at["a2a"], "%s", strings.TrimPrefix(err.Error(), fmt.Sprintf("remote agent %q: ", d.name)))
	}
}

func (v value) isAddress() bool { return v.key == "a2a" || strings.HasSuffix(v.key, "_url") }

// checkVariable reports a value whose variable cannot be used.
func (l *config) checkVariable(r *report, d *definition, v value) bool {
	switch resolved := l.resolved(v); {
	case v.variable == "" || resolved == "" && l.anyEnv:
	case resolved == "":
		r.add(d.file, v.at, "the environment variable %s is not set, and %s needs it", v.variable, v.key)
		return false
	case strings.ContainsFunc(resolved, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.add(d.file, v.at, "the environment variable %s holds a line break or another control character", v.variable)
		return false
	}
	return true
}

// resolved returns a value's text, or the value of its variable. It returns "" for an unset variable.
func (l *config) resolved(v value) string {
	if v.variable == "" {
		return v.text
	}
	return l.getenv(v.variable)
}

// certificate loads the client certificate, or returns nil if there is none. The error does not contain the file name,
// because a wrong variable may contain a secret.
func (l *config) certificate(d *definition) (*tls.Certificate, error) {
	cert, key := l.resolved(d.remote.certificate.cert), l.resolved(d.remote.certificate.key)
	if cert == "" || key == "" {
		return nil, nil
	}
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, confined.Reason(err)
	}
	return &c, nil
}

// remoteAgent makes a remote agent whose variables were checked.
func (l *config) remoteAgent(d *definition) (agent.Agent, error) {
	k := &d.remote
	address := l.resolved(k.address)
	if address == "" {
		address = "http://$" + k.address.variable // a placeholder; the agent is not called
	}
	opts := append([]a2a.Option{a2a.WithDescription(d.description)}, l.remotes...)
	if _, present := d.at["history"]; present {
		opts = append(opts, a2a.WithHistory(d.history))
	}
	if token := l.resolved(k.bearer); token != "" {
		opts = append(opts, a2a.WithBearer(token))
	}
	if key := l.resolved(k.apiKey.value); key != "" {
		switch at := k.apiKey; {
		case at.header.present():
			opts = append(opts, a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationHeader, at.header.text, key))
		case at.query.present():
			opts = append(opts, a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationQuery, at.query.text, key))
		case at.cookie.present():
			opts = append(opts, a2a.WithAPIKey(sdk.APIKeySecuritySchemeLocationCookie, at.cookie.text, key))
		}
	}
	c := a2a.ClientCredentials{TokenURL: l.resolved(k.oauth2.tokenURL), ID: l.resolved(k.oauth2.clientID), Secret: l.resolved(k.oauth2.clientSecret), Scopes: k.oauth2.scopes}
	if c.TokenURL != "" && c.ID != "" && c.Secret != "" {
		opts = append(opts, a2a.WithClientCredentials(c))
	}
	switch c, err := l.certificate(d); {
	case err != nil:
		return nil, err
	case c != nil:
		opts = append(opts, a2a.WithClientCertificate(*c))
	}
	for _, o := range k.origins {
		opts = append(opts, a2a.WithTrustedOrigin(o))
	}
	return a2a.Remote(d.name, address, opts...)
}
