package agentfile

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/confined"
	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// value is a string in a front matter, or the name of an environment variable, written with a $ prefix.
type value struct {
	key      string // the dotted key, as in problems
	text     string
	variable string // without the $; "" for a string
	at       pos
}

func (v value) present() bool { return v.text != "" || v.variable != "" }

// remoteKeys contains the keys a2a and auth of a remote agent.
type remoteKeys struct {
	address value
	bearer  value
	apiKey  struct{ value, header, query, cookie value }
	oauth2  struct {
		tokenURL, clientID, clientSecret value
		scopes                           []string
	}
	certificate struct{ cert, key value }
	origins     []string
}

// values returns the values that are set, in the order of the table.
func (k *remoteKeys) values() []value {
	all := []value{k.address, k.bearer, k.apiKey.value, k.apiKey.header, k.apiKey.query, k.apiKey.cookie,
		k.oauth2.tokenURL, k.oauth2.clientID, k.oauth2.clientSecret,
		k.certificate.cert, k.certificate.key}
	return slices.DeleteFunc(all, func(v value) bool { return !v.present() })
}

// remoteTable returns the keys of remote agents.
func remoteTable(p *parser) []yamldoc.Key {
	r := &p.d.remote
	return []yamldoc.Key{
		address(p, "a2a", "https://billing.example.com", &r.address),
		yamldoc.Object("auth", "",
			secret(p, "bearer", "$BILLING_TOKEN", &r.bearer),
			yamldoc.Object("api_key", "",
				secret(p, "value", "$BILLING_KEY", &r.apiKey.value),
				word(p, "header", "X-API-Key", &r.apiKey.header),
				word(p, "query", "key", &r.apiKey.query),
				word(p, "cookie", "key", &r.apiKey.cookie)).Hidden(),
			yamldoc.Object("oauth2", "",
				address(p, "token_url", "https://login.example.com/token", &r.oauth2.tokenURL),
				valueKey(p, "client_id", "arbor", &r.oauth2.clientID),
				secret(p, "client_secret", "$BILLING_SECRET", &r.oauth2.clientSecret),
				yamldoc.Strings("scopes", "[invoices]", &r.oauth2.scopes)).Hidden(),
			yamldoc.Object("certificate", "",
				secret(p, "cert", "$BILLING_CERT", &r.certificate.cert),
				secret(p, "key", "$BILLING_CERT_KEY", &r.certificate.key)).Hidden(),
			yamldoc.Custom("origins", "a list of texts", "[https://api.example.com]", p.origins)).Hidden(),
	}
}

func (p *parser) origins(k *yamldoc.Key, n yamldoc.Node) {
	p.List(k, n, func(text string, n yamldoc.Node) {
		if u, err := url.Parse(text); err != nil || !absolute(u) || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
			p.Add(n, "%s contains a value that is not an origin such as https://api.example.com", p.Name)
			return
		}
		p.d.remote.origins = append(p.d.remote.origins, text)
	})
}

var variableName = lazyregexp.New(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

// value converts a string to a value: $NAME is a variable.
func (p *parser) value(text string, n yamldoc.Node) value {
	v := value{key: p.Name, text: text, at: place(n)}
	if variableName.MatchString(text) {
		v.text, v.variable = "", text[1:]
	}
	return v
}

// valueKey returns a key for a string or an environment variable.
func valueKey(p *parser, name, example string, to *value) yamldoc.Key {
	return yamldoc.Custom(name, "a text", example, func(k *yamldoc.Key, n yamldoc.Node) {
		if text, ok := p.String(k, n); ok {
			*to = p.value(text, n)
		}
	})
}

// address returns a key for a URL or an environment variable. No message repeats the URL, because it may contain a
// password.
func address(p *parser, name, example string, to *value) yamldoc.Key {
	return yamldoc.Custom(name, "a text", example, func(k *yamldoc.Key, n yamldoc.Node) {
		text, ok := p.String(k, n)
		if !ok {
			return
		}
		v := p.value(text, n)
		if v.variable == "" {
			u, err := url.Parse(text)
			switch {
			case err != nil || !absolute(u):
				p.Add(n, "%s must be an http or https address such as %s, or the name of an environment variable with a $ in front", p.Name, example)
				return
			case u.User != nil:
				below := map[bool]string{true: "headers", false: "auth"}[name == "url"]
				p.Add(n, "%s holds a user or a password: secrets do not belong into a file, use the keys below %s", p.Name, below)
				return
			}
		}
		*to = v
	})
}

func absolute(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// secret returns a key for the name of an environment variable. No message repeats another value, because it may be the
// secret itself.
func secret(p *parser, name, example string, to *value) yamldoc.Key {
	return yamldoc.Custom(name, "the name of an environment variable", example, func(_ *yamldoc.Key, n yamldoc.Node) {
		text, ok := n.Trimmed()
		if !ok || !variableName.MatchString(text) {
			p.Add(n, "%s must be the name of an environment variable with a $ in front, such as %s: secrets do not belong into a file", p.Name, example)
			return
		}
		*to = p.value(text, n)
	})
}

var wordText = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// word returns a key for the name of a header, a parameter or a cookie.
func word(p *parser, name, example string, to *value) yamldoc.Key {
	return yamldoc.Custom(name, "a text", example, func(k *yamldoc.Key, n yamldoc.Node) {
		text, ok := p.String(k, n)
		switch {
		case !ok:
		case !wordText.MatchString(text):
			p.Add(n, "%s must be a name such as %s, without spaces and other signs", p.Name, example)
		default:
			*to = value{key: p.Name, text: text, at: place(n)}
		}
	})
}

// remoteOnly reports keys that are not allowed with the key a2a, and incomplete credentials.
func remoteOnly(p *parser) {
	at, present := p.keys["auth"]
	if _, p.d.isRemote = p.keys["a2a"]; !p.d.isRemote {
		if present {
			p.add(at, `the key "auth" is for remote agents, and there is no key a2a`)
		}
		return
	}
	if p.d.isGraph {
		return // graphOnly has reported the key a2a
	}
	p.only("a2a", "the remote agent has its own", "name", "description", "history", "guards", "budgets", "ignore", "a2a", "auth")
	p.noBody("a2a", "the key a2a on line %d says who answers, and a remote agent is sent no system prompt; what it is for is its description")
	checkAuth(p)
}

// checkAuth reports incomplete or contradicting credentials.
func checkAuth(p *parser) {
	missing := func(in string, names ...string) {
		for _, name := range names {
			if p.count(in+"."+name) == 0 {
				p.add(p.d.at[in], "%s.%s is missing", in, name)
			}
		}
	}
	if p.opened["auth.oauth2"] {
		if p.count("auth.bearer") > 0 {
			p.add(p.d.at["auth.oauth2"], "auth has both bearer and oauth2: there can be one token")
		}
		missing("auth.oauth2", "token_url", "client_id", "client_secret")
	}
	if p.opened["auth.certificate"] {
		missing("auth.certificate", "cert", "key")
	}
	if p.opened["auth.api_key"] {
		missing("auth.api_key", "value")
		if p.count("auth.api_key.header", "auth.api_key.query", "auth.api_key.cookie") != 1 {
			p.add(p.d.at["auth.api_key"], "auth.api_key needs one of header, query and cookie, which says where the key goes")
		}
	}
}

// count returns how many of these keys are set, valid or not.
func (p *parser) count(names ...string) (n int) {
	for _, name := range names {
		if _, present := p.d.at[name]; present {
			n++
		}
	}
	return n
}

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
