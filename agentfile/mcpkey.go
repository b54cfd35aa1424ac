package agentfile

import (
	"fmt"
	"io"
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

// MCPServer is a server of the Model Context Protocol as a file describes it, with the
// variables of the environment put in. Either Command or URL is there.
type MCPServer struct {
	Name    string
	Command string
	Args    []string
	Env     []string // NAME=VALUE, all that a subprocess gets
	Dir     string
	URL     string
	Headers map[string]string
	Tools   []string // names and patterns; nil means all
	Prefix  string
	Approve []string // the tools whose calls wait for an approval: names and patterns
	// Timeout bounds one call; 0 is the default.
	Timeout time.Duration
	// StartTimeout is how long a turn waits for the server to start and to list its tools; 0 is the default.
	StartTimeout       time.Duration
	Resources, Prompts bool
	// Required ends the start, and any turn, that cannot have the server's tools.
	Required bool
}

// WithMCP makes the key mcp of agents possible: open makes the tools of a server, without
// starting it. It is called for each agent that has the server; package agentfile/agentmcp gives
// agents whose files describe the same one the same. A set that is an io.Closer is closed by
// [Tree.Close].
func WithMCP(open func(MCPServer) (tools.Set, error)) Option {
	return func(c *config) { c.mcp = open }
}

// mcpKeys is what a file says of a server.
type mcpKeys struct {
	at      pos
	server  MCPServer
	first   []string // arguments in command
	dir     value
	url     value
	env     map[string]value
	headers map[string]value
	approve []item // unless it is all
}

func mcpKey() key {
	return key{name: "mcp", typ: "a list of mappings", example: "[{name: files, command: npx, args: [-y, some-server]}]", def: "none",
		meaning: "[MCP servers](mcp.md) whose tools the agent has in addition. Each has a `command` or a `url`. `$TOKEN` in `env`, `headers` and `url` is the value of this environment variable.",
		read:    readMCP, keys: serverKeys(&mcpKeys{})}
}

func readMCP(p *parser, k *key, n yamldoc.Node) {
	p.entries(k, n, func(n yamldoc.Node) {
		s, before := &mcpKeys{at: p.at(n)}, len(p.report.problems)
		p.pairs(serverKeys(s), k.name+".", n)
		p.needs(n, k.name, "name")
		if len(p.report.problems) > before {
			return
		}
		s.server.Args = slices.Concat(s.first, s.server.Args)
		switch byURL := s.url.there(); {
		case byURL == (s.server.Command != ""):
			p.add(s.at, "the server %s needs a command or a url, and not both", s.server.Name)
		case byURL && (s.server.Args != nil || s.env != nil || s.dir.there()):
			p.add(s.at, "the server %s has a url: args, env and cwd are for servers with a command", s.server.Name)
		case !byURL && s.headers != nil:
			p.add(s.at, "the server %s has a command: headers are for servers with a url", s.server.Name)
		case slices.ContainsFunc(p.d.mcp, func(other *mcpKeys) bool { return other.server.Name == s.server.Name }):
			p.add(s.at, "%s names the server %s twice", k.name, s.server.Name)
		default:
			p.d.mcp = append(p.d.mcp, s)
		}
	})
}

// serverKeys are the keys of one server, which read into s.
func serverKeys(s *mcpKeys) []key {
	word := func(name, example, def, meaning string, field *string) key {
		return key{name: name, typ: "a text", example: example, def: def, meaning: meaning,
			read: func(p *parser, k *key, n yamldoc.Node) { *field, _ = p.text(k, n) }}
	}
	list := func(name, example, def, meaning string, field *[]string) key {
		return key{name: name, typ: "a list of texts", example: example, def: def, meaning: meaning,
			read: func(p *parser, k *key, n yamldoc.Node) {
				for _, i := range p.list(k, n) {
					*field = append(*field, i.value)
				}
			}}
	}
	flag := func(name, meaning string, field *bool) key {
		return key{name: name, typ: "true or false", example: "true", def: "false", meaning: meaning,
			read: boolean(func(_ *definition, b bool) { *field = b })}
	}
	values := func(name, example, meaning string, secrets bool, field *map[string]value) key {
		return key{name: name, typ: "a mapping", example: example, def: "none", meaning: meaning, secret: true,
			read: func(p *parser, k *key, n yamldoc.Node) {
				*field = map[string]value{}
				p.labels(k, n, "a text", func(label string, k *key, n yamldoc.Node) {
					text, ok := textOf(n)
					v := p.value(text, n)
					switch {
					case !ok:
						p.add(p.at(n), "%s must be a text, or the name of an environment variable with a $ in front", p.name)
					case secrets && v.variable == "":
						p.add(p.at(n), "%s must be the name of an environment variable with a $ in front, such as $TOKEN: secrets do not belong into a file", p.name)
					default:
						(*field)[label] = v
					}
				})
			}}
	}
	return []key{
		word("name", "files", "required", "What messages call the server.", &s.server.Name),
		{name: "command", typ: "a text or a list of texts", example: "npx", def: "none", meaning: "The program, a path or a name in the `PATH`, or a list with its first arguments. It runs as long as the loaded tree.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				if n.Kind() != yamldoc.List {
					s.server.Command, _ = p.text(k, n)
					return
				}
				var words []string
				for _, i := range p.list(k, n) {
					words = append(words, i.value)
				}
				if len(words) == 0 {
					p.add(p.at(n), "%s is empty", k.name)
					return
				}
				s.server.Command, s.first = words[0], words[1:]
			}},
		list("args", "[-y, some-server, .]", "none", "Its arguments.", &s.server.Args),
		values("env", "{PATH: $PATH, MODE: ro}", "The whole environment of the program.", false, &s.env),
		{name: "cwd", typ: "a text", example: "data", def: "the working directory of the command", meaning: "The folder in which the program runs, relative to this file's.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				if text, ok := p.text(k, n); ok {
					s.dir = p.value(text, n)
				}
			}},
		{name: "url", typ: "a text", example: "https://tools.example.com/mcp", def: "none", meaning: "The address of a server over HTTP.",
			read: address(func(*definition) *value { return &s.url })},
		values("headers", "{Authorization: $SEARCH_AUTH}", "Headers of each request. The values are names of environment variables.", true, &s.headers),
		list("tools", "[read_file, 'list_*']", "all of them", "The tools to use, by the server's names; `*` matches anything.", &s.server.Tools),
		{name: "approve", typ: "all or a list of texts", example: "all", def: "none", meaning: "The tools whose calls wait for [an approval](approvals.md): `all`, or a list of the server's names or of those that the model sees.",
			read: func(p *parser, k *key, n yamldoc.Node) {
				if word, _ := n.Text(); word == "all" {
					s.server.Approve = []string{"*"}
					return
				}
				s.approve = p.names(k, n)
				for _, i := range s.approve {
					s.server.Approve = append(s.server.Approve, i.value)
				}
			}},
		word("prefix", "files_", "none", "A prefix for the names that the model sees.", &s.server.Prefix),
		{name: "timeout", typ: "a time with its unit", example: "20s", def: "1 minute", meaning: "How long one call may take.",
			read: duration(func(*definition) *time.Duration { return &s.server.Timeout })},
		{name: "start_timeout", typ: "a time with its unit", example: "2m", def: "30 seconds", meaning: "How long a turn waits for the server's start. One that takes longer [continues to start](mcp.md#servers-that-are-slow); a `required` one fails.",
			read: duration(func(*definition) *time.Duration { return &s.server.StartTimeout })},
		flag("resources", "Adds the tools `list_resources` and `read_resource`.", &s.server.Resources),
		flag("prompts", "Adds the tools `list_prompts` and `get_prompt`.", &s.server.Prompts),
		flag("required", "Without the server's tools, neither the program starts nor a turn continues. By default the agent then answers without them, with a notice.", &s.server.Required),
	}
}

// toolsets opens the servers of an agent, and reports what is wrong with them. Nothing is
// started, and no message holds what a variable holds.
func (l *loader) toolsets(r *report, d *definition) (sets []tools.Set) {
	for _, s := range d.mcp {
		s.checkApprove(r, d)
		before, server := len(r.problems), s.server
		held := func(v value) string {
			text := l.held(v)
			switch {
			case v.variable == "" || l.anyEnv && text == "":
			case text == "":
				r.add(d.file, v.at, "the environment variable %s is not set, and %s needs it", v.variable, v.key)
			case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }):
				r.add(d.file, v.at, "the environment variable %s holds a line break or another control character", v.variable)
			}
			return text
		}
		for _, name := range sorted(s.env) {
			server.Env = append(server.Env, name+"="+held(s.env[name]))
		}
		for _, name := range sorted(s.headers) {
			if server.Headers == nil {
				server.Headers = map[string]string{}
			}
			server.Headers[name] = held(s.headers[name])
		}
		if server.URL = held(s.url); s.url.there() && server.URL == "" {
			server.URL = "http://$" + s.url.variable // it is only looked at
		}
		if dir := held(s.dir); dir != "" {
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
			r.add(d.file, s.at, "the server %s cannot be used: %s", server.Name, err)
			continue
		}
		if c, ok := set.(io.Closer); ok {
			l.closers = append(l.closers, c.Close)
		}
		sets = append(sets, set)
	}
	return sets
}

// sorted returns the labels of a mapping.
func sorted(m map[string]value) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// mcpOf reads the servers that the configuration of a graph's node adds, as those of a
// front matter.
func mcpOf(d *definition, config any) ([]*mcpKeys, error) {
	r := &report{given: func(file string) string { return file }}
	p := &parser{report: r, d: &definition{file: d.file, at: map[string]pos{}, mcp: slices.Clone(d.mcp)}, keys: map[string]pos{}, opened: map[string]bool{}}
	text := fmt.Sprintf(`{"mcp": %s}`, event.EncodeJSON(config))
	if p.document(text, rules, []key{mcpKey()}, "mcp: []"); len(r.problems) > 0 {
		return nil, &agentgraph.ConfigError{Key: "mcp", Message: "cannot be used: " + r.problems[0].Message}
	}
	return p.d.mcp, nil
}

// withoutMCP refuses servers for documents of kind Agent, whose tools are those of the
// program: the key would only be shown to the model.
func withoutMCP(resolve agentgraph.Resolver) agentgraph.Resolver {
	return func(ref string, config map[string]any) (agent.Agent, error) {
		a, err := resolve(ref, config)
		if _, there := config["mcp"]; there && err == nil {
			return nil, &agentgraph.ConfigError{Key: "mcp", Message: "is for agents in Markdown: a document of kind Agent has the tools of the program"}
		}
		return a, err
	}
}
