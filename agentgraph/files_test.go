package agentgraph

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

// graphOf is a graph of arbor/v1 with a node for each line of a mapping's inside.
func graphOf(nodes ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: n0\n  agents:\n")
	for i, n := range nodes {
		fmt.Fprintf(&b, "    - {id: n%d, %s}\n", i, n)
	}
	b.WriteString("  edges:\n")
	for i := range nodes[1:] {
		fmt.Fprintf(&b, "    - {from: n%d, to: n%d}\n", i, i+1)
	}
	return b.String()
}

func mapFS(files map[string]string) fs.FS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestGraphInFiles(t *testing.T) {
	fsys := mapFS(map[string]string{
		"all/top.yaml":          graphOf("graph: parts/a.yaml", "graph: b.yaml", "graph: ./parts/../parts/a.yaml", "agentRef: local"),
		"all/b.yaml":            head + "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: local}\nspec: {role: hello}\n",
		"all/parts/a.yaml":      strings.Replace(graphOf("graph: deep/c.yaml", "graph: ../b.yaml"), "name: g", "name: parts", 1),
		"all/parts/deep/c.yaml": strings.Replace(strings.ReplaceAll(head, "agentRef: x", "agentRef: local"), "v0.2.7", "v0.2.8", 1),
	})
	top := must.Get(fs.ReadFile(fsys, "all/top.yaml"))
	g := must.Get(Load(top, WithFS(fsys, "all/top.yaml"), WithRefs("x")))
	a, b := g.Nodes[0].Graph, g.Nodes[1].Graph
	require.Equal(t, "parts", a.Name)
	require.Same(t, a, g.Nodes[2].Graph, "a file is read once")
	require.Same(t, b, a.Nodes[1].Graph)
	require.Equal(t, APIVersion, b.APIVersion, "a graph of v0.2.7 can stand in one of arbor/v1")
	require.Equal(t, "local", a.Nodes[0].Graph.Nodes[0].Ref, "the agents of all files are known in all files")
	require.Len(t, g.Agents, 1)
	require.Equal(t, "hello", g.Agents[0].Instructions)
	require.Len(t, b.Agents, 1)
	require.Empty(t, a.Agents)
	require.Len(t, g.Warnings, 1)
	require.Equal(t, "parts/deep/c.yaml", g.Warnings[0].File)

	// From the folder of a real file, with the same result.
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, fsys))
	again := must.Get(LoadFile(filepath.Join(dir, "all", "top.yaml"), WithRefs("x")))
	require.Equal(t, g, again)
}

func TestProblemsOfFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string // file:line path code
		say   string
	}{
		"no file":         {map[string]string{"top": graphOf("graph: a")}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, `there is no file "a"`},
		"folder":          {map[string]string{"top": graphOf("graph: a"), "a/b": ""}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, "this is a folder"},
		"above":           {map[string]string{"top": graphOf("graph: ../a"), "a": head}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, "in the folder of the outermost graph"},
		"above by a way":  {map[string]string{"top": graphOf("graph: x/../../a"), "a": head}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, "in the folder of the outermost graph"},
		"absolute":        {map[string]string{"top": graphOf("graph: /a"), "a": head}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, "in the folder of the outermost graph"},
		"of Windows":      {map[string]string{"top": graphOf(`graph: '..\a'`), "a": head}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, "with slashes"},
		"address":         {map[string]string{"top": graphOf(`graph: 'http://example.com/a'`)}, []string{":7 spec.agents[0].graph unknown_agent_ref"}, "in the folder of the outermost graph"},
		"itself":          {map[string]string{"top": graphOf("graph: top")}, []string{":7 spec.agents[0].graph cycle"}, "top → top"},
		"circle of three": {map[string]string{"top": graphOf("graph: a/b"), "a/b": graphOf("agentRef: x", "graph: ../c"), "c": graphOf("graph: a/b")}, []string{"c:7 spec.agents[0].graph cycle"}, "a/b → c → a/b"},
		"inner problems": {map[string]string{"top": graphOf("agentRef: no", "graph: a", "graph: a"), "a": strings.Replace(graphOf("agentRef: nono", "graph: b"), "entrypoint: n0", "entrypoint: n7", 1), "b": "kind: Agent"},
			[]string{":7 spec.agents[0].agentRef unknown_agent_ref", "a:5 spec.entrypoint unknown_entrypoint", "a:7 spec.agents[0].agentRef unknown_agent_ref",
				"b:1 documents[0].apiVersion missing_field", "b:1 documents[0].metadata missing_field"}, ""},
		"inner agents only": {map[string]string{"top": graphOf("graph: a"), "a": "apiVersion: arbor/v1\nkind: Agent\nmetadata: {name: q}\n"}, []string{"a:1 kind wrong_kind"}, "holds agents only"},
		"inner is no YAML":  {map[string]string{"top": graphOf("graph: a"), "a": "a\n\tb: ["}, []string{"a:1  yaml"}, ""},
		"inner is inline": {map[string]string{"top": graphOf("graph: {agents: [{id: i, graph: sub/a}, {id: j, graph: nope}], edges: [{from: i, to: j}], entrypoint: i}"), "sub/a": graphOf("graph: b"), "sub/b": graphOf("agentRef: no")},
			[]string{":7 spec.agents[0].graph.agents[1].graph unknown_agent_ref", "sub/b:7 spec.agents[0].agentRef unknown_agent_ref"}, ""},
		"one name, two agents": {map[string]string{"top": graphOf("graph: a") + "---\napiVersion: arbor/v1\nkind: Agent\nmetadata: {name: q}\n", "a": head + "---\napiVersion: arbor/v1\nkind: Agent\nmetadata: {name: q}\n"},
			[]string{":10 documents[1].metadata.name duplicate_id"}, "is already on line 15 of a"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(c.files["top"]), WithFile("dir/top"), WithFS(mapFS(c.files), "top"), WithRefs("x"))
			var got []string
			for _, p := range Problems(err) {
				got = append(got, fmt.Sprintf("%s:%d %s %s", p.File, p.Line, p.Path, p.Code))
			}
			require.Equal(t, c.want, got, "%v", err)
			require.Contains(t, err.Error(), c.say)
			if strings.HasPrefix(c.want[len(c.want)-1], "c:") {
				require.True(t, strings.HasPrefix(err.Error(), filepath.Join("dir", "c")+":7: "), err.Error())
			}
		})
	}
}

// TestLinkOutOfFolder: a link does not lead out of the folder either.
func TestLinkOutOfFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
	write("secret.yaml", head)
	write("in/top.yaml", graphOf("graph: link.yaml"))
	require.NoError(t, os.Symlink(filepath.Join(dir, "secret.yaml"), filepath.Join(dir, "in", "link.yaml")))
	_, err := LoadFile(filepath.Join(dir, "in", "top.yaml"), WithRefs("x"))
	require.Len(t, Problems(err), 1)
	require.ErrorContains(t, err, "escapes")
}

func TestDepthOfGraphs(t *testing.T) {
	chain := func(n int) map[string]string {
		files := map[string]string{"top": graphOf("graph: f2")}
		for i := 2; i < n; i++ {
			files[fmt.Sprintf("f%d", i)] = graphOf(fmt.Sprintf("graph: f%d", i+1))
		}
		files[fmt.Sprintf("f%d", n)] = head
		return files
	}
	load := func(files map[string]string) error {
		_, err := Load([]byte(files["top"]), WithFS(mapFS(files), "top"), WithRefs("x"))
		return err
	}
	require.NoError(t, load(chain(8)))
	err := load(chain(9))
	require.Len(t, Problems(err), 1)
	require.ErrorContains(t, err, "at most 8 deep")
	require.Equal(t, "f8", Problems(err)[0].File)

	// A file that has been read already counts with what is in it.
	files := chain(8)
	files["top"] = graphOf("graph: f2", "graph: {agents: [{id: i, graph: f2}], entrypoint: i}")
	err = load(files)
	require.Len(t, Problems(err), 1)
	require.ErrorContains(t, err, "at most 8 deep")

	inline := "agentRef: x"
	for range 7 {
		inline = "graph: {entrypoint: i, agents: [{id: i, " + inline + "}]}"
	}
	require.NoError(t, load(map[string]string{"top": graphOf(inline)}))
	err = load(map[string]string{"top": graphOf("graph: {entrypoint: i, agents: [{id: i, " + inline + "}]}")})
	require.Len(t, Problems(err), 1)
	require.ErrorContains(t, err, "at most 8 deep")
}

// TestManyGraphs: what is short to write can be large to run.
func TestManyGraphs(t *testing.T) {
	files := map[string]string{}
	for i := range 6 {
		nodes := make([]string, 10)
		for j := range nodes {
			nodes[j] = fmt.Sprintf("graph: f%d", i+1)
		}
		files[fmt.Sprintf("f%d", i)] = graphOf(nodes...)
	}
	files["f6"] = head
	_, err := Load([]byte(files["f0"]), WithFS(mapFS(files), "f0"), WithRefs("x"))
	require.NotEmpty(t, Problems(err))
	require.ErrorContains(t, err, "more than 100000 agents")

	// Aliases of graphs, which are read anew each time.
	var b strings.Builder
	b.WriteString("apiVersion: arbor/v1\nkind: AgentGraph\nmetadata: {name: g, version: 1.0.0}\nspec:\n  entrypoint: n0\n  agents:\n    - {id: n0, graph: &g {entrypoint: i, agents: [")
	b.WriteString(strings.Repeat("{id: i, agentRef: x, config: {a: 1}}, ", 500) + "]}}\n")
	for i := range 500 {
		fmt.Fprintf(&b, "    - {id: n%d, graph: *g}\n", i+1)
	}
	_, err = Load([]byte(b.String()), WithAnyRef())
	require.ErrorContains(t, err, "aliases make the file more than 10000 values larger")

	large := map[string]string{"top": graphOf("graph: a", "graph: b", "graph: c", "graph: d", "graph: e")}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		large[name] = head + strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 4_000)
	}
	_, err = Load([]byte(large["top"]), WithFS(mapFS(large), "top"), WithRefs("x"))
	require.Len(t, Problems(err), 1)
	require.ErrorContains(t, err, "more than 16 MiB together")
	large["a"] += strings.Repeat("#\n", MaxFile/2)
	_, err = Load([]byte(large["top"]), WithFS(mapFS(large), "top"), WithRefs("x"))
	require.ErrorContains(t, err, "a:1: the file is larger than 4 MiB")
}
