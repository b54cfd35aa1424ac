package agentfile

import (
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/yamldoc"
	"github.com/agentarbor/arbor/tools"
)

// MCPServer is the description of an MCP server in a file, with the values of its environment variables. Exactly one of
// Command and URL is set.
type MCPServer struct {
	Name    string
	Command string
	Args    []string
	Env     []string // NAME=VALUE; the subprocess gets no other variables
	Dir     string
	URL     string
	Headers map[string]string
	Tools   []string // names and patterns; nil means all
	Prefix  string
	Approve []string // tools that need an approval: names and patterns
	// Timeout limits the duration of one call. 0 means the default.
	Timeout time.Duration
	// StartTimeout limits how long a turn waits for the server to start and to list its tools. 0 means the default.
	StartTimeout       time.Duration
	Resources, Prompts bool
	// Required makes the start, and any turn, fail if the server's tools are not available.
	Required bool
}

// WithMCP enables the key mcp of agents. open returns the tools of a server without starting it. It is called for each
// agent with the server; with package agentfile/agentmcp, agents whose files describe the same server share it.
// [Tree.Close] closes a set that is an io.Closer.
func WithMCP(open func(MCPServer) (tools.Set, error)) Option {
	return func(c *config) { c.mcp = open }
}

// mcpKeys contains the keys of a server in a file.
type mcpKeys struct {
	at      pos
	server  MCPServer
	command value
	first   []string // arguments in command
	dir     value
	url     value
	env     map[string]value
	headers map[string]value
	approve []item // if not all
}

func mcpKey(p *parser) yamldoc.Key {
	return yamldoc.Custom("mcp", "a list of mappings", "[{name: files, command: npx, args: [-y, some-server]}]", p.servers).
		WithKeys(serverKeys(p, &mcpKeys{})...)
}

func (p *parser) servers(k *yamldoc.Key, n yamldoc.Node) {
	p.Entries(k, n, func(n yamldoc.Node) {
		s, before := &mcpKeys{at: place(n)}, p.Problems
		p.Mapping(serverKeys(p, s), "mcp.", n)
		p.Needs(n, "mcp", "name")
		if p.Problems > before {
			return
		}
		s.server.Args = slices.Concat(s.first, s.server.Args)
		switch byURL := s.url.present(); {
		case byURL == s.command.present():
			p.Add(n, "the server %s needs a command or a url, and not both", s.server.Name)
		case byURL && (s.server.Args != nil || s.env != nil || s.dir.present()):
			p.Add(n, "the server %s has a url: args, env and cwd are for servers with a command", s.server.Name)
		case !byURL && s.headers != nil:
			p.Add(n, "the server %s has a command: headers are for servers with a url", s.server.Name)
		case slices.ContainsFunc(p.d.mcp, func(other *mcpKeys) bool { return other.server.Name == s.server.Name }):
			p.Add(n, "mcp names the server %s twice", s.server.Name)
		default:
			p.d.mcp = append(p.d.mcp, s)
		}
	})
}

// serverKeys returns the keys of one server, which store into s.
func serverKeys(p *parser, s *mcpKeys) []yamldoc.Key {
	return []yamldoc.Key{
		yamldoc.String("name", "files", &s.server.Name),
		yamldoc.Custom("command", "a text or a list of texts", "npx", func(k *yamldoc.Key, n yamldoc.Node) {
			if n.Kind() != yamldoc.List {
				if text, ok := p.String(k, n); ok {
					s.command = p.value(text, n)
				}
			} else if words := p.Texts(k, n); len(words) > 0 {
				s.command, s.first = p.value(words[0], n), words[1:]
			} else {
				p.Add(n, "command is empty")
			}
		}),
		yamldoc.Strings("args", "[-y, some-server, .]", &s.server.Args),
		valuesKey(p, "env", "{PATH: $PATH, MODE: ro}", false, &s.env),
		valueKey(p, "cwd", "data", &s.dir),
		address(p, "url", "https://tools.example.com/mcp", &s.url),
		valuesKey(p, "headers", "{Authorization: $SEARCH_AUTH}", true, &s.headers),
		yamldoc.Strings("tools", "[read_file, 'list_*']", &s.server.Tools),
		yamldoc.Custom("approve", "all or a list of texts", "all", func(k *yamldoc.Key, n yamldoc.Node) {
			if word, _ := n.Text(); word == "all" {
				s.server.Approve = []string{"*"}
				return
			}
			s.approve = p.names(k, n)
			s.server.Approve = append(s.server.Approve, valuesOf(s.approve)...)
		}),
		yamldoc.String("prefix", "files_", &s.server.Prefix),
		yamldoc.Duration("timeout", "20s", &s.server.Timeout),
		yamldoc.Duration("start_timeout", "2m", &s.server.StartTimeout),
		yamldoc.Flag("resources", &s.server.Resources),
		yamldoc.Flag("prompts", &s.server.Prompts),
		yamldoc.Flag("required", &s.server.Required),
	}
}

// valuesKey returns a key for a mapping of strings or environment variables. Secrets must be environment variables.
func valuesKey(p *parser, name, example string, secrets bool, to *map[string]value) yamldoc.Key {
	return yamldoc.Custom(name, "a mapping", example, func(k *yamldoc.Key, n yamldoc.Node) {
		*to = map[string]value{}
		p.Labels(k, n, "a text", func(label string, k *yamldoc.Key, n yamldoc.Node) {
			text, ok := n.Trimmed()
			v := p.value(text, n)
			switch {
			case !ok:
				p.Add(n, "%s must be a text, or the name of an environment variable with a $ in front", p.Name)
			case secrets && v.variable == "":
				p.Add(n, "%s must be the name of an environment variable with a $ in front, such as $TOKEN: secrets do not belong into a file", p.Name)
			default:
				(*to)[label] = v
			}
		})
	}).Hidden()
}

// toolsets opens the servers of an agent and reports their problems. It starts no server. No message contains the value
// of a variable.
func (l *loader) toolsets(r *report, d *definition) (sets []tools.Set) {
	for _, s := range d.mcp {
		s.checkApprove(r, d)
		before, server := len(r.problems), s.server
		resolved := func(v value) string {
			l.checkVariable(r, d, v)
			return l.resolved(v)
		}
		for _, name := range slices.Sorted(maps.Keys(s.env)) {
			server.Env = append(server.Env, name+"="+resolved(s.env[name]))
		}
		for _, name := range slices.Sorted(maps.Keys(s.headers)) {
			if server.Headers == nil {
				server.Headers = map[string]string{}
			}
			server.Headers[name] = resolved(s.headers[name])
		}
		if server.URL = resolved(s.url); s.url.present() && server.URL == "" {
			server.URL = "http://$" + s.url.variable // a placeholder; the server is not started
		}
		if server.Command = resolved(s.command); s.command.present() && server.Command == "" {
			server.Command = "$" + s.command.variable
		}
		if dir := resolved(s.dir); dir != "" {
			if server.Dir = dir; !filepath.IsAbs(dir) {
				server.Dir = l.report.given(path.Join(path.Dir(d.file), filepath.ToSlash(dir)))
			}
		}
		if len(r.problems) > before {
			continue
		}
		if l.mcp == nil {
			r.add(d.file, s.at, "this program has no servers of the Model Context Protocol built in")
			continue
		}
		set, err := l.mcp(server)
		if err != nil {
			wrong := strings.TrimPrefix(err.Error(), fmt.Sprintf("mcp server %q: ", server.Name))
			r.add(d.file, s.at, "the server %s cannot be used: %s", server.Name, wrong)
			continue
		}
		if c, ok := set.(io.Closer); ok {
			l.closers = append(l.closers, c.Close)
		}
		sets = append(sets, set)
	}
	return sets
}

// mcpOf reads the servers that the configuration of a graph's node adds, in the format of a front matter.
func mcpOf(d *definition, config any) ([]*mcpKeys, error) {
	r := &report{given: func(file string) string { return file }}
	p := newParser(r, &definition{file: d.file, at: map[string]pos{}, mcp: slices.Clone(d.mcp)})
	text := fmt.Sprintf(`{"mcp": %s}`, event.EncodeJSON(config))
	if p.document(text, rules, []yamldoc.Key{mcpKey(p)}, "mcp: []"); len(r.problems) > 0 {
		return nil, &agentgraph.ConfigError{Key: "mcp", Message: "cannot be used: " + r.problems[0].Message}
	}
	return p.d.mcp, nil
}

// withoutMCP refuses servers for documents of kind Agent, which use the tools of the program: otherwise the key would
// only be shown to the model.
func withoutMCP(resolve agentgraph.Resolver) agentgraph.Resolver {
	return func(ref string, config map[string]any) (agent.Agent, error) {
		a, err := resolve(ref, config)
		if _, present := config["mcp"]; present && err == nil {
			return nil, &agentgraph.ConfigError{Key: "mcp", Message: "is for agents in Markdown: a document of kind Agent has the tools of the program"}
		}
		return a, err
	}
}
