package agentfile

import (
	"net/url"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/internal/lazyregexp"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// value is a text of a front matter, or the name of an environment variable,
// written with a $ in front.
type value struct {
	key      string // dotted, as problems name it
	text     string
	variable string // without the $; "" for a text
	at       pos
}

func (v value) there() bool { return v.text != "" || v.variable != "" }

// remoteKeys is what the keys a2a and auth say of a remote agent.
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

// values returns those that are there, in the order of the table.
func (k *remoteKeys) values() []value {
	all := []value{k.address, k.bearer, k.apiKey.value, k.apiKey.header, k.apiKey.query, k.apiKey.cookie,
		k.oauth2.tokenURL, k.oauth2.clientID, k.oauth2.clientSecret,
		k.certificate.cert, k.certificate.key}
	return slices.DeleteFunc(all, func(v value) bool { return !v.there() })
}

// remoteTable describes the keys of remote agents.
func remoteTable() []key {
	return []key{
		{name: "a2a", typ: "a text", example: "https://billing.example.com", def: "none",
			meaning: "The address of a [remote agent](#remote-agents): of its card or its host. `$BILLING_URL` is the value of this environment variable.",
			read:    address(func(d *definition) *value { return &d.remote.address })},
		{name: "auth", typ: "a mapping", def: "none", secret: true,
			meaning: "The credentials for a remote agent. Secrets are names of environment variables with a `$`.",
			keys: []key{
				{name: "bearer", typ: "the name of an environment variable", example: "$BILLING_TOKEN", def: "none",
					meaning: "A bearer token.",
					read:    secret(func(d *definition) *value { return &d.remote.bearer })},
				{name: "api_key", typ: "a mapping", def: "none", secret: true,
					meaning: "A key, and its name in one of `header`, `query` and `cookie`.",
					keys: []key{
						{name: "value", typ: "the name of an environment variable", example: "$BILLING_KEY", def: "required",
							meaning: "The key.",
							read:    secret(func(d *definition) *value { return &d.remote.apiKey.value })},
						{name: "header", typ: "a text", example: "X-API-Key", def: "none",
							meaning: "The header that holds the key.",
							read:    word(func(d *definition) *value { return &d.remote.apiKey.header })},
						{name: "query", typ: "a text", example: "key", def: "none",
							meaning: "The parameter of the address that holds the key.",
							read:    word(func(d *definition) *value { return &d.remote.apiKey.query })},
						{name: "cookie", typ: "a text", example: "key", def: "none",
							meaning: "The cookie that holds the key.",
							read:    word(func(d *definition) *value { return &d.remote.apiKey.cookie })},
					}},
				{name: "oauth2", typ: "a mapping", def: "none", secret: true,
					meaning: "A token fetched with a client's credentials, and again before it expires.",
					keys: []key{
						{name: "token_url", typ: "a text", example: "https://login.example.com/token", def: "required",
							meaning: "The address that gives tokens, or `$NAME`.",
							read:    address(func(d *definition) *value { return &d.remote.oauth2.tokenURL })},
						{name: "client_id", typ: "a text", example: "arbor", def: "required",
							meaning: "The client's id, or `$NAME`.",
							read: func(p *parser, k *key, n yamldoc.Node) {
								if v, ok := p.text(k, n); ok {
									p.d.remote.oauth2.clientID = p.value(v, n)
								}
							}},
						{name: "client_secret", typ: "the name of an environment variable", example: "$BILLING_SECRET", def: "required",
							meaning: "The client's secret.",
							read:    secret(func(d *definition) *value { return &d.remote.oauth2.clientSecret })},
						{name: "scopes", typ: "a list of texts", example: "[invoices]", def: "none",
							meaning: "What the token is asked for.",
							read: func(p *parser, k *key, n yamldoc.Node) {
								for _, s := range p.list(k, n) {
									p.d.remote.oauth2.scopes = append(p.d.remote.oauth2.scopes, s.value)
								}
							}},
					}},
				{name: "certificate", typ: "a mapping", def: "none", secret: true,
					meaning: "A client certificate, for peers that ask for one in TLS.",
					keys: []key{
						{name: "cert", typ: "the name of an environment variable", example: "$BILLING_CERT", def: "required",
							meaning: "The path of a PEM file with the certificate.",
							read:    secret(func(d *definition) *value { return &d.remote.certificate.cert })},
						{name: "key", typ: "the name of an environment variable", example: "$BILLING_CERT_KEY", def: "required",
							meaning: "The path of a PEM file with its private key.",
							read:    secret(func(d *definition) *value { return &d.remote.certificate.key })},
					}},
				{name: "origins", typ: "a list of texts", example: "[https://api.example.com]", def: "none",
					meaning: "Further origins to which the credentials may go.",
					read: func(p *parser, k *key, n yamldoc.Node) {
						for _, o := range p.list(k, n) {
							if u, err := url.Parse(o.value); err != nil || !absolute(u) || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
								p.add(o.at, "%s holds what is no origin such as https://api.example.com", p.name)
								continue
							}
							p.d.remote.origins = append(p.d.remote.origins, o.value)
						}
					}},
			}},
	}
}

var variableName = lazyregexp.New(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

// value makes a value of a text: $NAME is a variable.
func (p *parser) value(text string, n yamldoc.Node) value {
	v := value{key: p.name, text: text, at: p.at(n)}
	if variableName.MatchString(text) {
		v.text, v.variable = "", text[1:]
	}
	return v
}

// address reads a URL, or the variable that holds one. No message repeats the URL,
// because people write passwords into them.
func address(field func(*definition) *value) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		text, ok := p.text(k, n)
		if !ok {
			return
		}
		v := p.value(text, n)
		if v.variable == "" {
			u, err := url.Parse(text)
			switch {
			case err != nil || !absolute(u):
				p.add(v.at, "%s must be an http or https address such as %s, or the name of an environment variable with a $ in front", p.name, k.example)
				return
			case u.User != nil:
				p.add(v.at, "%s holds a user or a password: secrets do not belong into a file, use the keys below %s", p.name, map[bool]string{true: "headers", false: "auth"}[k.name == "url"])
				return
			}
		}
		*field(p.d) = v
	}
}

func absolute(u *url.URL) bool {
	return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// secret reads the name of a variable. No message repeats what is written there
// instead, because that may be the secret.
func secret(field func(*definition) *value) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		text, ok := textOf(n)
		if !ok || !variableName.MatchString(text) {
			p.add(p.at(n), "%s must be the name of an environment variable with a $ in front, such as %s: secrets do not belong into a file", p.name, k.example)
			return
		}
		*field(p.d) = p.value(text, n)
	}
}

var wordText = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// word reads the name of a header, a parameter or a cookie.
func word(field func(*definition) *value) func(*parser, *key, yamldoc.Node) {
	return func(p *parser, k *key, n yamldoc.Node) {
		text, ok := p.text(k, n)
		if !ok {
			return
		}
		if !wordText.MatchString(text) {
			p.add(p.at(n), "%s must be a name such as %s, without spaces and other signs", p.name, k.example)
			return
		}
		*field(p.d) = value{key: p.name, text: text, at: p.at(n)}
	}
}

// remoteOnly reports keys beside the key a2a that mean nothing there, and
// credentials that are not complete.
func (p *parser) remoteOnly() {
	at, there := p.keys["auth"]
	if _, p.d.isRemote = p.keys["a2a"]; !p.d.isRemote {
		if there {
			p.add(at, "the key auth is for remote agents, and there is no key a2a")
		}
		return
	}
	if p.d.isGraph {
		return // which has complained of the key a2a
	}
	for _, k := range keys() {
		at, there := p.keys[k.name]
		switch k.name {
		case "name", "description", "history", "guards", "budgets", "ignore", "a2a", "auth":
			continue
		}
		if there {
			p.add(at, "the key %q does not go with a2a: the remote agent has its own", k.name)
		}
	}
	if p.d.body != "" {
		p.add(p.d.bodyAt, "the body must be empty: the key a2a on line %d says who answers, and a remote agent is sent no system prompt; what it is for is its description", p.keys["a2a"].line)
	}
	p.authWhole()
}

// authWhole reports credentials that are not complete, or too many.
func (p *parser) authWhole() {
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

// count returns how many of some keys are there, right or wrong.
func (p *parser) count(names ...string) (n int) {
	for _, name := range names {
		if _, there := p.d.at[name]; there {
			n++
		}
	}
	return n
}
