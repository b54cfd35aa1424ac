package agentgraph

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// known says which of the references in a case exist.
func known(graph string) Option {
	refs := []string{"sentiment-analyzer", "translator"}
	for _, ref := range regexp.MustCompile(`[\w-]+-agent\b`).FindAllString(graph, -1) {
		if ref != "no-such-agent" {
			refs = append(refs, ref)
		}
	}
	return WithRefs(refs...)
}

type invalidCase struct {
	Name, Code, Where, Note, Graph string
}

func readCases[T any](t testing.TB, file string) (cases []T) {
	t.Helper()
	data := must.Get(os.ReadFile(file))
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var c T
		if err := dec.Decode(&c); err != nil {
			break
		}
		cases = append(cases, c)
	}
	require.Greater(t, len(cases), 5)
	return cases
}

func TestInvalid(t *testing.T) {
	for _, c := range readCases[invalidCase](t, "testdata/invalid.yaml") {
		t.Run(c.Name, func(t *testing.T) {
			g, err := Load([]byte(c.Graph), known(c.Graph))
			require.Nil(t, g)
			var codes []string
			for _, p := range Problems(err) {
				codes = append(codes, string(p.Code))
				if c.Where != "" {
					require.Equal(t, c.Where, p.Path)
				}
				t.Log(p.Line, p)
			}
			slices.Sort(codes)
			require.Equal(t, strings.Split(c.Code, ","), codes)
		})
	}
}

func TestExamples(t *testing.T) {
	files := must.Get(filepath.Glob("testdata/ossa/*.yaml"))
	require.Len(t, files, 6)
	for _, file := range files {
		if filepath.Base(file) == "resource-definition.yaml" {
			continue
		}
		g := must.Get(LoadFile(file, WithAnyRef()))
		require.NotEmpty(t, g.Edges)
		require.Empty(t, g.Warnings)
		require.Equal(t, "ossa.ai/v0.2.7", g.APIVersion)
		require.Equal(t, "1.0.0", g.Version)
	}
	g := must.Get(LoadFile("testdata/ossa/support-router.yaml", WithRefs("intent-classifier", "technical-support", "billing-support@2.0.0", "general-support")))
	require.Equal(t, ErrorHandling{FailFast, 3, "general"}, g.OnError)
	require.Equal(t, "classifier", g.Entrypoint)
	require.Equal(t, Node{ID: "billing", Ref: "billing-support", Line: 12}, g.Nodes[2])
	require.Equal(t, "output.intent == 'technical'", g.Edges[0].Condition.Source())
	yes := must.Get(g.Edges[1].Condition.Test(map[string]any{"intent": "billing"}, nil))
	require.True(t, yes)

	// Without agents every reference is a problem, and nothing else is.
	_, err := LoadFile("testdata/ossa/support-router.yaml")
	require.Len(t, Problems(err), 4)
	for _, p := range Problems(err) {
		require.Equal(t, CodeUnknownAgentRef, p.Code)
	}
	require.Contains(t, err.Error(), "testdata/ossa/support-router.yaml:9: spec.agents[0].agentRef: ")

	// The definition of the resource is no graph, and is recognised by its name.
	_, err = LoadFile("testdata/ossa/resource-definition.yaml", WithAnyRef())
	require.Len(t, Problems(err), 1)
	require.Equal(t, CodeWrongKind, Problems(err)[0].Code)
	require.Contains(t, err.Error(), `"ResourceDefinition"`)
}

func TestCasesOfRunsLoad(t *testing.T) {
	for _, c := range readCases[struct{ Name, Graph string }](t, "testdata/exec.yaml") {
		_, err := Load([]byte(c.Graph), known(c.Graph))
		require.NoError(t, err, c.Name)
	}
}

// head is the beginning of a graph with two agents and one edge.
const head = "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata:\n  name: g\n  version: 1.0.0\nspec:\n  entrypoint: a\n" +
	"  agents:\n    - {id: a, agentRef: x}\n    - {id: b, agentRef: x}\n  edges:\n    - from: a\n      to: b\n"

type problemCase struct {
	file string
	want []string // code path:line
	say  string
}

// problemCases are changes of head with the problems that follow.
func problemCases() map[string]problemCase {
	change := func(old, new string) string {
		if !strings.Contains(head, old) {
			panic(old)
		}
		return strings.Replace(head, old, new, 1)
	}
	return map[string]problemCase{
		"good":                   {file: head},
		"good with comments":     {file: "# one\n---\n" + head + "# two\n...\n"},
		"good with CRLF":         {file: strings.ReplaceAll(head, "\n", "\r\n")},
		"good with a BOM":        {file: "\xef\xbb\xbf" + head},
		"good with an anchor":    {file: change("{id: b, agentRef: x}", "{id: b, agentRef: x, config: &c {k: [1, 2]}}") + "    - {from: a, to: c}\n  errorHandling: {strategy: retry, maxRetries: 0, fallbackAgent: b}\n", want: []string{"unknown_edge_agent spec.edges[1].to:14"}},
		"no edges":               {file: change("    - {id: b, agentRef: x}\n  edges:\n    - from: a\n      to: b\n", "")},
		"edges without value":    {file: change("    - {id: b, agentRef: x}\n  edges:\n    - from: a\n      to: b\n", "  edges:\n")},
		"empty":                  {file: "", want: []string{"wrong_kind kind:1"}, say: "the file is empty"},
		"comment only":           {file: "# hello\n", want: []string{"wrong_kind kind:1"}},
		"text":                   {file: "hello\n", want: []string{"wrong_kind :1"}},
		"agents only":            {file: "apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: x}\n", want: []string{"wrong_kind kind:1"}, say: "holds agents only"},
		"other kind":             {file: change("AgentGraph", "Workflow"), want: []string{"wrong_kind kind:2"}, say: `"Workflow"`},
		"kind in small letters":  {file: change("AgentGraph", "agentgraph"), want: []string{"wrong_kind kind:2"}, say: `did you mean "AgentGraph"`},
		"no kind":                {file: change("kind: AgentGraph\n", ""), want: []string{"wrong_kind kind:1"}},
		"number as kind":         {file: change("kind: AgentGraph\n", "kind: 5\n"), want: []string{"wrong_kind kind:2"}},
		"two graphs":             {file: head + "---\n" + head, want: []string{"wrong_kind documents[1].kind:16"}, say: "one AgentGraph"},
		"other document":         {file: head + "---\nkind: Tool\n", want: []string{"wrong_kind kind:15"}, say: `"Tool"`},
		"other group":            {file: change("ossa.ai/v0.2.7", "apps/v1"), want: []string{"wrong_api_version apiVersion:1"}, say: "only resources of ossa.ai"},
		"future version":         {file: change("v0.2.7", "v0.3.0"), want: []string{"wrong_api_version apiVersion:1"}, say: "v0.3.0 is not known"},
		"version of two parts":   {file: change("v0.2.7", "v0.2"), want: []string{"wrong_api_version apiVersion:1"}, say: "must be such as ossa.ai/v0.2.7"},
		"pre-release":            {file: change("v0.2.7", "v0.2.7-dev"), want: []string{"wrong_api_version apiVersion:1"}},
		"no apiVersion":          {file: change("apiVersion: ossa.ai/v0.2.7\n", ""), want: []string{"missing_field apiVersion:1"}},
		"number as apiVersion":   {file: change("ossa.ai/v0.2.7", "1.0"), want: []string{"wrong_api_version apiVersion:1"}},
		"no metadata":            {file: change("metadata:\n  name: g\n  version: 1.0.0\n", ""), want: []string{"missing_field metadata:1"}},
		"empty metadata":         {file: change("\n  name: g\n  version: 1.0.0\n", "\n"), want: []string{"missing_field metadata:3"}},
		"list as metadata":       {file: change("\n  name: g\n  version: 1.0.0\n", " [a]\n"), want: []string{"yaml metadata:3"}},
		"no name":                {file: change("  name: g\n", ""), want: []string{"missing_field metadata.name:3"}},
		"empty name":             {file: change("name: g", "name: ' '"), want: []string{"missing_field metadata.name:4"}},
		"number as name":         {file: change("name: g", "name: 1.10"), want: []string{"yaml metadata.name:4"}, say: `put it in quotes, "1.10"`},
		"no version":             {file: change("  version: 1.0.0\n", ""), want: []string{"missing_field metadata.version:3"}},
		"version 1.0":            {file: change("1.0.0", "1.0"), want: []string{"bad_version metadata.version:5"}, say: "as a number"},
		"version 1":              {file: change("1.0.0", "1"), want: []string{"bad_version metadata.version:5"}},
		"version '1.0'":          {file: change("1.0.0", "'1.0'"), want: []string{"bad_version metadata.version:5"}, say: "semver.org"},
		"version v1.0.0":         {file: change("1.0.0", "v1.0.0"), want: []string{"bad_version metadata.version:5"}, say: "without the v"},
		"version 01.0.0":         {file: change("1.0.0", "01.0.0"), want: []string{"bad_version metadata.version:5"}},
		"version date":           {file: change("1.0.0", "2026-01-01"), want: []string{"bad_version metadata.version:5"}},
		"version pre-release":    {file: change("1.0.0", "1.0.0-rc.1+build.5")},
		"version list":           {file: change("1.0.0", "[1]"), want: []string{"bad_version metadata.version:5"}},
		"metadata misspelt":      {file: change("  name: g\n", "  name: g\n  lables: {}\n"), want: []string{"unknown_field metadata.lables:5"}, say: `did you mean "labels"`},
		"labels as text":         {file: change("  name: g\n", "  name: g\n  labels: x\n"), want: []string{"yaml metadata.labels:5"}},
		"no spec":                {file: "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\n", want: []string{"missing_field spec:1"}},
		"spec as text":           {file: "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec: x\n", want: []string{"yaml spec:4"}},
		"no agents":              {file: "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: a\n", want: []string{"missing_field spec.agents:4"}},
		"empty agents":           {file: "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents: []\n  entrypoint:\n", want: []string{"missing_field spec.agents:5", "missing_field spec.entrypoint:6"}},
		"agents as mapping":      {file: "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  agents: {a: b}\n  entrypoint: a\n", want: []string{"yaml spec.agents:5"}},
		"agent as text":          {file: change("{id: b, agentRef: x}", "b"), want: []string{"yaml spec.agents[1]:10", "unknown_edge_agent spec.edges[0].to:13"}},
		"no id":                  {file: change("{id: b, agentRef: x}", "{agentRef: x}"), want: []string{"missing_field spec.agents[1].id:10", "unknown_edge_agent spec.edges[0].to:13"}},
		"no agentRef":            {file: change("{id: b, agentRef: x}", "{id: b}"), want: []string{"missing_field spec.agents[1].agentRef:10"}},
		"number as id":           {file: change("{id: b, agentRef: x}", "{id: 1, agentRef: x}"), want: []string{"yaml spec.agents[1].id:10", "unknown_edge_agent spec.edges[0].to:13"}},
		"unknown ref":            {file: change("{id: b, agentRef: x}", "{id: b, agentRef: translater}"), want: []string{"unknown_agent_ref spec.agents[1].agentRef:10"}, say: `did you mean "translator"`},
		"config as list":         {file: change("{id: b, agentRef: x}", "{id: b, agentRef: x, config: [1]}"), want: []string{"yaml spec.agents[1].config:10"}},
		"config with .nan":       {file: change("{id: b, agentRef: x}", "{id: b, agentRef: x, config: {k: [.nan]}}"), want: []string{"yaml spec.agents[1].config.k[0]:10"}},
		"repeated in config":     {file: change("{id: b, agentRef: x}", "{id: b, agentRef: x, config: {k: {l: 1, l: 2}}}"), want: []string{"yaml spec.agents[1].config.k.l:10"}},
		"repeated key":           {file: change("entrypoint: a\n", "entrypoint: a\n  entrypoint: a\n"), want: []string{"yaml spec.entrypoint:8"}, say: "repeated"},
		"repeated id":            {file: change("{id: b, agentRef: x}", "{id: b, id: b, agentRef: x}"), want: []string{"yaml spec.agents[1].id:10"}},
		"repeated top":           {file: head + "kind: AgentGraph\n", want: []string{"yaml kind:14"}},
		"edge without to":        {file: change("      to: b\n", ""), want: []string{"missing_field spec.edges[0].to:12"}},
		"edges as mapping":       {file: change("    - from: a\n      to: b\n", "    a: b\n"), want: []string{"yaml spec.edges:12"}},
		"edges misspelt":         {file: change("  edges:", "  egdes:"), want: []string{"unknown_field spec.egdes:11"}, say: `did you mean "edges"`},
		"edges by another word":  {file: change("  edges:", "  links:"), want: []string{"unknown_field spec.links:11"}, say: `did you mean "edges"`},
		"edges twice":            {file: change("  edges:", "  edges: []\n  edges:"), want: []string{"yaml spec.edges:12"}, say: "repeated"},
		"edge as text":           {file: change("    - from: a\n      to: b\n", "    - a -> b\n"), want: []string{"yaml spec.edges[0]:12"}},
		"edge from a ref":        {file: change("from: a", "from: x"), want: []string{"unknown_edge_agent spec.edges[0].from:12"}, say: "that is an agentRef"},
		"edge from a number":     {file: change("from: a", "from: 1"), want: []string{"unknown_edge_agent spec.edges[0].from:12"}},
		"edge misspelt":          {file: change("to: b", "to: bb"), want: []string{"unknown_edge_agent spec.edges[0].to:13"}, say: `did you mean "b"`},
		"self edge":              {file: change("to: b", "to: a"), want: []string{"unreachable spec.agents[1]:10", "cycle spec.edges[0]:12"}, say: "a → a"},
		"conditional back edge":  {file: head + "    - {from: b, to: a, condition: output.again}\n", want: []string{"cycle spec.edges[1]:14"}, say: "a → b → a"},
		"no entrypoint":          {file: change("  entrypoint: a\n", ""), want: []string{"missing_field spec.entrypoint:6"}},
		"entrypoint misspelt":    {file: change("entrypoint: a", "entrypoint: aa"), want: []string{"unknown_entrypoint spec.entrypoint:7"}, say: `did you mean "a"`},
		"backwards":              {file: change("entrypoint: a", "entrypoint: b"), want: []string{"unreachable spec.agents[0]:9"}},
		"fallback alone":         {file: change("      to: b\n", "      to: a2\n") + "  errorHandling: {fallbackAgent: b}\n", want: []string{"unknown_edge_agent spec.edges[0].to:13"}},
		"behind the fallback":    {file: change("    - {id: b, agentRef: x}\n", "    - {id: b, agentRef: x}\n    - {id: f, agentRef: x}\n    - {id: n, agentRef: x}\n") + "    - {from: f, to: n}\n  errorHandling: {fallbackAgent: f}\n", want: []string{"unreachable spec.agents[3]:12"}, say: "from the fallbackAgent is never taken"},
		"unknown fallback":       {file: head + "  errorHandling: {fallbackAgent: c}\n", want: []string{"unknown_fallback spec.errorHandling.fallbackAgent:14"}},
		"strategy misspelt":      {file: head + "  errorHandling: {strategy: failfast}\n", want: []string{"bad_strategy spec.errorHandling.strategy:14"}, say: `did you mean "fail-fast"`},
		"strategy number":        {file: head + "  errorHandling: {strategy: 1}\n", want: []string{"bad_strategy spec.errorHandling.strategy:14"}},
		"negative retries":       {file: head + "  errorHandling: {maxRetries: -1}\n", want: []string{"bad_max_retries spec.errorHandling.maxRetries:14"}},
		"fraction of retries":    {file: head + "  errorHandling: {maxRetries: 1.5}\n", want: []string{"bad_max_retries spec.errorHandling.maxRetries:14"}},
		"retries as text":        {file: head + "  errorHandling: {maxRetries: '3'}\n", want: []string{"bad_max_retries spec.errorHandling.maxRetries:14"}},
		"too many retries":       {file: head + "  errorHandling: {maxRetries: 99999999999999999999}\n", want: []string{"bad_max_retries spec.errorHandling.maxRetries:14"}},
		"retries without value":  {file: head + "  errorHandling: {maxRetries: }\n", want: []string{"bad_max_retries spec.errorHandling.maxRetries:14"}},
		"error handling as text": {file: head + "  errorHandling: retry\n", want: []string{"yaml spec.errorHandling:14"}},
		"condition number":       {file: head + "      condition: 1\n", want: []string{"bad_expression spec.edges[0].condition:14"}},
		"condition bool":         {file: head + "      condition: true\n", want: []string{"bad_expression spec.edges[0].condition:14"}, say: `quotes, "true"`},
		"condition empty":        {file: head + "      condition: ''\n", want: []string{"bad_expression spec.edges[0].condition:14"}},
		"condition without":      {file: head + "      condition:\n", want: []string{"bad_expression spec.edges[0].condition:14"}},
		"condition wrong type":   {file: head + "      condition: output.a + 1\n", want: []string{"bad_expression spec.edges[0].condition:14"}, say: "must be true or false"},
		"condition a number":     {file: head + "      condition: len(output.a) + 1\n", want: []string{"bad_expression spec.edges[0].condition:14"}, say: "true or false"},
		"condition in lines":     {file: head + "      condition: |\n        output.a == 1 and\n        output.b === 2\n", want: []string{"bad_expression spec.edges[0].condition:16"}, say: "write =="},
		"transform list":         {file: head + "      transform: [output.a]\n", want: []string{"bad_expression spec.edges[0].transform:14"}, say: "YAML reads a list"},
		"transform in braces":    {file: head + "      transform: '{\"a\": output.b}'\n"},
		"when":                   {file: head + "      when: output.a\n", want: []string{"unknown_field spec.edges[0].when:14"}, say: `did you mean "condition"`},
		"future loops":           {file: head + "  loops: []\n", want: []string{"unknown_field spec.loops:14"}, say: "loops are not part of AgentGraph v0.2.7"},
		"future subgraphs":       {file: head + "  subgraphs: []\n", want: []string{"unknown_field spec.subgraphs:14"}, say: "graphs within graphs"},
		"future state":           {file: head + "  state: {}\n", want: []string{"unknown_field spec.state:14"}, say: "share"},
		"future routing":         {file: head + "  dynamicRouting: {}\n", want: []string{"unknown_field spec.dynamicRouting:14"}},
		"top-level key":          {file: head + "status: {}\n", want: []string{"unknown_field status:14"}, say: "the keys here are"},
		"broken YAML":            {file: head + "  x: [1\n", want: []string{"yaml :14"}},
		"NUL":                    {file: strings.Replace(head, "name: g", "name: \x00", 1), want: []string{"yaml :4"}, say: "control character"},
		"alias of nothing":       {file: strings.Replace(head, "name: g", "name: *n", 1), want: []string{"yaml :4"}, say: "no anchor &n"},
		"alias before anchor":    {file: strings.Replace(head, "  name: g\n  version: 1.0.0\n", "  name: *v\n  version: &v 1.0.0\n", 1), want: []string{"yaml :4"}},
		"alias":                  {file: strings.Replace(head, "  name: g\n  version: 1.0.0\n", "  version: &v 1.0.0\n  name: *v\n", 1)},
		"anchor of itself":       {file: change("{id: b, agentRef: x}", "{id: b, agentRef: x, config: &c {k: *c}}"), want: []string{"yaml :10"}},
		"agent without name":     {file: head + "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {}\nspec: {role: r}\n", want: []string{"missing_field documents[1].metadata.name:17"}},
		"key with a line break":  {file: change("{id: b, agentRef: x}", `{id: b, agentRef: x, "ke\ng.yaml:1: y": 1}`), want: []string{"unknown_field spec.agents[1].ke\ng.yaml:1: y:10"}},
		"agent twice":            {file: head + strings.Repeat("---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: q}\n", 2), want: []string{"duplicate_id documents[2].metadata.name:19"}},
		"agent with a bad role":  {file: head + "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: q}\nspec: {role: [1], llm: x, tools: []}\n", want: []string{"yaml documents[1].spec.llm:18", "yaml documents[1].spec.role:18"}},
	}
}

func TestProblems(t *testing.T) {
	for name, c := range problemCases() {
		t.Run(name, func(t *testing.T) {
			g, err := Load([]byte(c.file), WithFile("g.yaml"), WithRefs("x", "translator"))
			var got []string
			for _, p := range Problems(err) {
				got = append(got, fmt.Sprintf("%s %s:%d", p.Code, p.Path, p.Line))
			}
			require.Equal(t, c.want, got, "%v", err)
			if len(c.want) == 0 {
				require.NoError(t, err)
				require.NotNil(t, g)
				return
			}
			require.Nil(t, g)
			require.Contains(t, err.Error(), c.say)
			var all *Error
			require.True(t, errors.As(err, &all))
			require.True(t, strings.HasPrefix(err.Error(), "g.yaml:"))
			require.Len(t, strings.Split(err.Error(), "\n"), len(got))
		})
	}
}

func TestWholeGraph(t *testing.T) {
	g := must.Get(Load([]byte(`apiVersion: ossa.ai/v0.2.9
kind: AgentGraph
metadata:
  name: whole
  version: 1.0.0
  description: Everything
  labels: {team: a}
  owner: me
spec:
  agents:
    - id: a
      agentRef: x@1.0.0
      config: &c {threshold: 0.8, big: 9007199254740993, huge: 18446744073709551615, list: [1, null, true, "y"], deep: {k: v}}
    - {id: b, agentRef: y, config: *c}
    - {id: f, agentRef: z}
  edges:
    - from: a
      to: b
      condition: output.ok
      transform: |
        {
          "data": output.extracted,
          "format": "json"
        }
  entrypoint: a
  errorHandling: {strategy: retry, maxRetries: 5, fallbackAgent: f}
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: x, version: 1.0.0, description: An agent}
spec:
  role: You are x.
  llm: {provider: openai, model: m, temperature: 0.2}
  tools: [{name: t}]
---
apiVersion: ossa.ai/v0.2.7
kind: Agent
metadata: {name: y}
spec: {instructions: You are y.}
`), WithRefs("z")))
	config := map[string]any{"threshold": 0.8, "big": int64(9007199254740993), "huge": uint64(18446744073709551615), "list": []any{int64(1), nil, true, "y"}, "deep": map[string]any{"k": "v"}}
	require.Equal(t, []Node{{ID: "a", Ref: "x@1.0.0", Config: config, Line: 11}, {ID: "b", Ref: "y", Config: config, Line: 14}, {ID: "f", Ref: "z", Line: 15}}, g.Nodes)
	g.Nodes[0].Config["threshold"] = 1
	require.InDelta(t, 0.8, g.Nodes[1].Config["threshold"], 0, "an alias is a copy")
	require.Equal(t, ErrorHandling{Retry, 5, "f"}, g.OnError)
	require.Equal(t, "Everything", g.Description)
	require.Equal(t, map[string]any{"labels": map[string]any{"team": "a"}, "owner": "me"}, g.Metadata)
	require.Len(t, g.Agents, 2)
	require.Equal(t, "You are x.", g.Agents[0].Instructions)
	require.Equal(t, "m", g.Agents[0].Model)
	require.Equal(t, "An agent", g.Agents[0].Description)
	require.Contains(t, g.Agents[0].Spec, "tools")
	require.Equal(t, "You are y.", g.Agents[1].Instructions)
	require.Len(t, g.Warnings, 1)
	require.Equal(t, CodeWrongAPIVersion, g.Warnings[0].Code)
	v := must.Get(g.Edges[0].Transform.Value(map[string]any{"extracted": []any{1}}, nil))
	require.Equal(t, map[string]any{"data": []any{1}, "format": "json"}, v)
}

// TestNodesWithAgents: a node whose agent a program gives needs no agent of its reference, whatever else is wrong.
func TestNodesWithAgents(t *testing.T) {
	file := "apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: a\n  agents:\n    - {id: a, agentRef: x}\n" +
		"    - {id: b, graph: {entrypoint: c, agents: [{id: c, tool: y}]}}\n  edges: [{from: a, to: b}]\n"
	_, err := Load([]byte(file), WithNodes("a", "b/c"))
	require.NoError(t, err)
	_, err = Load([]byte(file), WithNodes("b/c"))
	require.Len(t, Problems(err), 1)
	_, err = Load([]byte(strings.Replace(file, "edges", "edgse", 1)), WithNodes("a", "c"))
	require.Len(t, Problems(err), 2)
	require.Equal(t, []Code{CodeUnknownTool, CodeUnknownField}, []Code{Problems(err)[0].Code, Problems(err)[1].Code}, "%v", err)
}

func TestRefsWithVersions(t *testing.T) {
	s := newRefs([]string{"a", "b@1.0.0", "c@1.0.0", "c@2.0.0"})
	for ref, want := range map[string]bool{"a": true, "a@9.9.9": true, "b": true, "b@1.0.0": true, "b@2.0.0": false, "c@2.0.0": true, "d": false, "@": false, "@1": false} {
		require.Equal(t, want, s.has(ref), ref)
	}
}

// hostile are files that are cheap to write and could be dear to read.
// hostile returns files that take time to refuse. The length of most is a multiple of size.
func hostile(size int) map[string]string {
	laughs := "config:\n  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n"
	for i := range 20 {
		laughs += fmt.Sprintf("  a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), i)
	}
	in := func(config string) string {
		return strings.Replace(head, "    - {id: b, agentRef: x}\n", "    - id: b\n      agentRef: x\n      "+strings.ReplaceAll(config, "\n", "\n      ")+"\n", 1)
	}
	var keys, ladder, documents strings.Builder
	for i := range 200 * size {
		fmt.Fprintf(&keys, "k%d: v\n", i)
	}
	for i := range 150 * int(math.Sqrt(float64(size))) { // of which the length is the square
		fmt.Fprintf(&ladder, "%sk:\n", strings.Repeat(" ", i))
	}
	for range 200 * size {
		documents.WriteString("---\na: b\n")
	}
	flowKeys := "{" + strings.ReplaceAll(keys.String(), "\n", ", ") + "}"
	edges := head
	for i := range 50 * size {
		edges += fmt.Sprintf("    - {from: n%d, to: m%d}\n", i, i)
	}
	return map[string]string{
		"billion laughs":    in(laughs),
		"list of aliases":   in("config:\n  a: &a [1, 2, 3]\n  b: [" + strings.Repeat("*a, ", 3_000*size) + "]"),
		"10 MB":             head + strings.Repeat("# comment\n", 1_000_000),
		"flat mapping":      keys.String(),
		"flow mapping":      "a: " + flowKeys,
		"flow lists":        "a: " + strings.Repeat("[", 1_000*size),
		"flow lists closed": "a: " + strings.Repeat("[", 50*size) + strings.Repeat("]", 50*size),
		"flow mappings":     "a: " + strings.Repeat("{a: ", 1_000*size),
		"dashes":            strings.Repeat("- ", 1_000*size) + "a",
		"question marks":    strings.Repeat("? ", 1_000*size) + "a",
		"ladder":            ladder.String(),
		"documents":         documents.String(),
		"document ends":     strings.Repeat("a\n...\n", 1_000*size),
		"long text":         "a: " + strings.Repeat("hello world ", 600*size),
		"long quoted":       "a: \"" + strings.Repeat("hello\\n ", 600*size) + "\"",
		"lines":             strings.Repeat("\n", 8_000*size),
		"spaces":            "a:" + strings.Repeat(" ", 8_000*size) + "b",
		"many unknown ids":  edges,
		"anchors":           "a: [" + strings.Repeat("&a x, ", 200*size) + "]",
		"colons":            strings.Repeat(":", 4_000*size),
		"colons apart":      strings.Repeat(": ", 2_000*size),
		"stars":             "a: [" + strings.Repeat("*a ", 2_000*size) + "]",
		"commented":         "a: [" + strings.Repeat("a, #b\n", 600*size) + "]",
		"lists":             "a:\n" + strings.Repeat("- [a]\n", 500*size),
		"bars":              "a: |\n" + strings.Repeat(" b\n", 2_000*size),
		"questions apart":   strings.Repeat("? a\n", 1_000*size),
		"tabs":              strings.Repeat("a:\t\t\n", 1_000*size),
		"returns":           strings.Repeat("\r", 8_000*size),
		"words":             strings.Repeat("a\n", 4_000*size),
		"brackets":          strings.Repeat("[]", 600*size),
		"quoted lines":      "a: '" + strings.Repeat("b\n", 4_000*size) + "'",
		"quotes":            strings.Repeat("'", 2_000*size),
		"percent":           strings.Repeat("%YAML 1.2\n---\n", 10*size),
		"many commas":       "a: [" + strings.Repeat(",", 2_000*size) + "]",
		"pairs in lists":    "a: [" + strings.Repeat("a: b, ", 1_000*size) + "]",
	}
}

func TestHostile(t *testing.T) {
	few, many := hostile(4), hostile(16)
	for name := range few {
		t.Run(name, func(t *testing.T) {
			load := func(file string) func() {
				return func() {
					_, err := Load([]byte(file), WithRefs("x"))
					require.NotEmpty(t, Problems(err))
				}
			}
			must.Scale(t, load(few[name]), load(many[name]))
		})
	}
}

func TestCycleOfMany(t *testing.T) {
	file := "apiVersion: ossa.ai/v0.2.7\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: n0\n  agents:\n"
	edges := "  edges:\n"
	for i := range 1000 {
		file += fmt.Sprintf("    - {id: n%d, agentRef: worker}\n", i)
		edges += fmt.Sprintf("    - {from: n%d, to: n%d}\n", i, (i+1)%1000)
	}
	_, err := Load([]byte(file+edges), WithAnyRef())
	require.Len(t, Problems(err), 1)
	require.Contains(t, err.Error(), "n0 → … → n980")
	require.Contains(t, err.Error(), "n999 → n0")
}

func TestLoadFileErrors(t *testing.T) {
	_, err := LoadFile("testdata/no-such.yaml")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Nil(t, Problems(err))
	_, err = LoadFile("testdata")
	require.ErrorContains(t, err, "is a folder")
}
