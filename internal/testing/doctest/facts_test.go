package doctest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a/a2av0"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// TestTranscripts holds pages against the transcripts that they name.
func TestTranscripts(t *testing.T) {
	for folder, page := range map[string]string{"transfer": "transfer.md", "scopes": "approvals.md"} {
		files, err := filepath.Glob(filepath.Join(root, "runner", "testdata", folder, "*.txtar"))
		require.NoError(t, err)
		var there []string
		for _, f := range files {
			there = append(there, filepath.Base(f))
		}
		named := regexp.MustCompile(`[a-z0-9-]+\.txtar`).FindAllString(doc(t, page).text, -1)
		require.ElementsMatch(t, there, unique(named), page)
	}
	p := doc(t, "transfer.md")

	tests := regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(p.text, -1)
	require.NotEmpty(t, tests)
	for _, m := range tests {
		require.True(t, anyFileHas(t, "func "+m[1]+"(t *testing.T)"), "%s names %s, which does not exist", p.path, m[1])
	}
}

// anyFileHas looks for a text in the tests of the packages that run agents.
func anyFileHas(t *testing.T, text string) bool {
	t.Helper()
	for _, dir := range []string{"runner", "llmagent", "agenttool", "view", "tools/transfer", "a2a"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
		require.NoError(t, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			if strings.Contains(string(data), text) {
				return true
			}
		}
	}
	return false
}

type goMod struct {
	Go      string
	Require []struct {
		Path     string
		Indirect bool
	}
}

func goModule(t testing.TB) (m goMod) { return goModuleIn(t, ".") }

// goModuleIn reads the module in a folder.
func goModuleIn(t testing.TB, folder string) (m goMod) {
	t.Helper()
	out, err := goCommand(t, root, "mod", "edit", "-json", filepath.Join(folder, "go.mod")).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &m))
	return m
}

// TestDependencies compares the page about dependencies with the direct requirements, those of engines and
// of the inspector among them. Each has a row that says what it is for, why it was chosen, and what it costs.
func TestDependencies(t *testing.T) {
	var npm struct{ Dependencies, DevDependencies map[string]string }
	data, err := os.ReadFile("../../../web/inspector/package.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &npm))
	var direct []string
	for _, all := range []map[string]string{npm.Dependencies, npm.DevDependencies} {
		for name := range all {
			if !strings.HasPrefix(name, "@types/") {
				direct = append(direct, name)
			}
		}
	}
	for _, folder := range []string{".", "engine/temporal", "engine/temporal/internal/devserver"} {
		for _, r := range goModuleIn(t, folder).Require {
			if !r.Indirect && r.Path != module && !slices.Contains(direct, r.Path) {
				direct = append(direct, r.Path)
			}
		}
	}
	var listed []string
	for line := range strings.Lines(doc(t, "dependencies.md").prose) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if name := firstCells(line); len(cells) == 4 && name != nil {
			listed = append(listed, name...)
			for _, cell := range cells {
				require.NotEmpty(t, strings.TrimSpace(cell), line)
			}
		}
	}
	require.ElementsMatch(t, direct, listed)
}

func help(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	status := cli.Run(t.Context(), append(args, "--help"), cli.Streams{Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard},
		cli.WithMetrics(func() (cli.Metrics, error) { return cli.Metrics{}, errors.ErrUnsupported }), cli.WithGRPC(cli.GRPC{}), cli.WithA2A03(a2av0.Bindings(), a2av0.Server()), // as cmd/arbor
		cli.WithMCP(cli.MCP{Server: func(*runner.Runner, string, tools.By, access.Options, *access.Limit, *slog.Logger) (cli.MCPServer, error) {
			return nil, errors.ErrUnsupported
		}}),
		cli.WithPostgres(func(context.Context, string) (session.Store, error) { return nil, errors.ErrUnsupported }),
		cli.WithRedis(func(context.Context, string, session.Store, time.Duration, *slog.Logger) (session.Store, error) {
			return nil, errors.ErrUnsupported
		}))
	require.Zero(t, status)
	return out.String()
}

var (
	usageLine  = regexp.MustCompile(`(?m)^Usage:\n  (.+?)(?: \[flags\])?$`)
	subcommand = regexp.MustCompile(`(?m)^  ([a-z]+) +\S`)
	flag       = regexp.MustCompile(`(?m)^ +(?:-[a-z], )?(--[a-z0-9-]+)`)
	docFlag    = regexp.MustCompile("(?m)^\\| `(--[a-z0-9-]+)`(?:, `(--[a-z0-9-]+)`)?(?:, `(--[a-z0-9-]+)`)?")
	anyFlag    = regexp.MustCompile("`(--[a-z0-9-]+)")
)

// TestCommandPages compares docs/command.md, and the pages of reference next to it, with what the command says about
// itself: each command has a section, each flag in the table of a section is one of that command, each flag on a page
// exists, and all exit statuses are listed.
func TestCommandPages(t *testing.T) {
	sections := make(map[string]string) // by the heading
	var documented []string
	for _, p := range docs(t, "command*.md") {
		for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
			if strings.HasPrefix(m[2], "`arbor ") {
				documented = append(documented, m[2])
				sections[m[2]] = p.section(t, m[0])
			}
		}
	}
	var usages, all []string
	var visit func(args ...string)
	visit = func(args ...string) {
		text := help(t, args...)
		if _, list, ok := strings.Cut(text, "Available Commands:\n"); ok {
			list, _, _ = strings.Cut(list, "\n\n")
			for _, m := range subcommand.FindAllStringSubmatch(list, -1) {
				if m[1] != "help" {
					visit(append(slices.Clone(args), m[1])...)
				}
			}
			return
		}
		usage := usageLine.FindStringSubmatch(text)
		require.NotNil(t, usage, text)
		usages = append(usages, "`"+usage[1]+"`")
		var flags []string
		_, list, _ := strings.Cut(text, "Flags:\n")
		for _, m := range flag.FindAllStringSubmatch(list, -1) {
			flags = append(flags, m[1])
		}
		all = append(all, flags...)
		for _, m := range docFlag.FindAllStringSubmatch(sections["`"+usage[1]+"`"], -1) {
			require.Subset(t, flags, slices.DeleteFunc(m[1:], func(name string) bool { return name == "" }), usage[1])
		}
	}
	visit()
	require.ElementsMatch(t, usages, documented)
	for _, p := range docs(t, "command*.md") {
		for _, m := range anyFlag.FindAllStringSubmatch(p.prose, -1) {
			require.Contains(t, all, m[1], p.path)
		}
	}

	_, statuses, ok := strings.Cut(help(t), "Exit status:")
	require.True(t, ok)
	statuses, _, _ = strings.Cut(statuses, "\n\n")
	require.ElementsMatch(t, regexp.MustCompile(`\d+`).FindAllString(statuses, -1), firstCells(doc(t, "command.md").section(t, "## Exit status")))
}

// TestEventsPage compares docs/events.md with package event: types, fields,
// finish reasons and outcomes.
func TestEventsPage(t *testing.T) {
	p := doc(t, "events.md")
	var documented []string
	for _, h := range p.headings(3) {
		name := strings.Trim(h, "`")
		documented = append(documented, name)
		var e event.Event
		require.NoError(t, json.Unmarshal([]byte(`{"type":"`+name+`"}`), &e))
		var fields []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(e.Data).Elem()) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields = append(fields, tag)
		}
		require.ElementsMatch(t, fields, firstCells(p.section(t, "### "+h)), name)
	}
	require.ElementsMatch(t, event.Types(), documented)

	whole := event.Event{Seq: 1, ID: "a", TurnID: "b", RunID: "c", Scope: "d", ParentID: "e", Agent: "f", Path: "g",
		Time: time.Unix(0, 0), Partial: true, Attempt: 1, Data: &event.Text{}}
	data, err := json.Marshal(&whole)
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, json.Unmarshal(data, &object))
	delete(object, "content")
	var envelope []string
	for name := range object {
		envelope = append(envelope, name)
	}
	require.ElementsMatch(t, envelope, firstCells(p.section(t, "## The envelope")))

	require.ElementsMatch(t, constants(t, "event/outcome.go", "FinishReason"), firstCells(p.section(t, "## Finish reasons")))
	require.ElementsMatch(t, constants(t, "event/outcome.go", "Transfer"), firstCells(p.section(t, "## Outcomes of a transfer")))
}

// TestAgentIsForAuthors: what "go doc" tells of package agent fits on two screens.
func TestAgentIsForAuthors(t *testing.T) {
	out, err := goCommand(t, root, "doc", "./agent").Output()
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(out, []byte("\n")), 100, "what only runners, stores and workflows need belongs elsewhere")
}

// TestModelsPage compares docs/models.md with the options of the adapter and
// the codes of errors.
func TestModelsPage(t *testing.T) {
	p := doc(t, "models.md")
	require.ElementsMatch(t, constants(t, "llm/errors.go", "Code"), firstCells(p.section(t, "## Errors and what to do")))
	data, err := os.ReadFile(filepath.Join(root, "llm", "openai", "options.go"))
	require.NoError(t, err)
	var options []string
	for _, m := range regexp.MustCompile(`(?m)^func (With\w+)\(`).FindAllStringSubmatch(string(data), -1) {
		options = append(options, m[1])
	}
	require.ElementsMatch(t, options, firstCells(p.section(t, "## Options")))
}

// TestPerformancePage finds every benchmark of the runner in docs/performance.md.
func TestPerformancePage(t *testing.T) {
	p := doc(t, "performance.md")
	data, err := os.ReadFile(filepath.Join(root, "runner", "bench_test.go"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`(?m)^func Benchmark(\w+)\(`).FindAllStringSubmatch(string(data), -1) {
		require.Contains(t, p.text, "`"+m[1])
	}
}

var packageRow = regexp.MustCompile("(?m)^\\| (`[^|]+)")

// TestReadme compares the README with the quickstart, whose heart it shows. It is one screen; docs/README.md lists all pages, and
// docs/packages.md all packages.
func TestReadme(t *testing.T) {
	p := read(t, filepath.Join(root, "README.md"))
	data, err := os.ReadFile(filepath.Join(root, "examples", "quickstart", "main.go"))
	require.NoError(t, err)
	shown := 0
	for _, b := range p.blocks {
		if b.lang == "go" {
			shown++
			require.Contains(t, dedent(string(data)), strings.TrimSpace(dedent(b.code)), "the quickstart differs")
			require.LessOrEqual(t, strings.Count(b.code, "\n"), 20)
		}
	}
	require.Equal(t, 1, shown)
	require.LessOrEqual(t, strings.Count(p.text, "\n"), 90)
	var listed []string
	rows := packageRow.FindAllStringSubmatch(doc(t, "packages.md").text, -1)
	require.LessOrEqual(t, len(rows), 30)
	for _, row := range rows {
		for _, name := range code.FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, name[1])
		}
	}
	require.ElementsMatch(t, packages(t), listed)
	list := doc(t, "README.md")
	for _, p := range docs(t, "*.md") {
		if p.path != list.path {
			require.Contains(t, list.text, "("+filepath.Base(p.path)+")")
		}
	}
}

// TestTopLevel: the design card's folders and files are where it has them.
func TestTopLevel(t *testing.T) {
	for _, name := range []string{"go.mod", "agent", "llmagent", "runner", "session", "tools/transfer", "agenttool", "a2a", "examples", "README.md"} {
		_, err := os.Stat(filepath.Join(root, name))
		require.NoError(t, err)
	}
}

// dedent removes the space at the beginning of all lines.
func dedent(s string) string { return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(s, "") }

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks follows the links within the repository.
func TestLinks(t *testing.T) {
	all := pages(t)
	for _, name := range []string{"AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"} {
		all = append(all, read(t, filepath.Join(root, name)))
	}
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(p.text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := p
			if target != "" {
				file := filepath.Join(root, filepath.Dir(p.path), target)
				_, err := os.Stat(file)
				require.NoError(t, err, "%s links to %s", p.path, m[1])
				if anchor == "" {
					continue
				}
				to = read(t, file)
			}
			var anchors []string
			for _, h := range to.headings(0) {
				anchors = append(anchors, slug(h))
			}
			require.Contains(t, anchors, anchor, "%s links to %s", p.path, m[1])
		}
	}
}

// slug is the anchor of a heading on code hosts.
func slug(heading string) string {
	s := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(s, " ", "-")
}

// constants returns the values of a file's string constants whose names have a
// prefix.
func constants(t *testing.T, file, prefix string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(file)), nil, 0)
	require.NoError(t, err)
	var values []string
	for _, d := range parsed.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if !strings.HasPrefix(v.Names[0].Name, prefix) || len(v.Values) == 0 {
				continue
			}
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			values = append(values, value)
		}
	}
	require.NotEmpty(t, values)
	return values
}

func unique(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return slices.Compact(s)
}
