package agentgraph

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestFolderRefs(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	names, err := FolderRefs(fstest.MapFS{
		"support.md":         file("---\nname: desk # a name\n---\nHello."),
		"support/billing.md": file("---\r\ndescription: x\r\n---\r\nHello."),
		"support/other.yaml": file("kind: Agent\nmetadata: {name: hidden}\n"),
		"readme.md":          file("# no agent"),
		"open.md":            file("---\nname: open\n"),
		"quoted.md":          file("---\nname: \"q-1\"\n---\n"),
		"plain/deep.md":      file("---\nname: deep\n---\n"),
		"agents.yaml":        file("apiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: y, version: 1.0.0}\n---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: z}\n"),
		"graph.yml":          file(head + "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: inner}\n"),
		"broken.yaml":        file("kind: Agent\n\tmetadata"),
		".hidden.md":         file("---\nname: hidden\n---\n"),
		"desk-tools.txt":     file("---\nname: text\n---\n"),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"billing", "desk", "inner", "q-1", "y@1.0.0", "z"}, names)

	_, err = FolderRefs(fstest.MapFS{})
	require.NoError(t, err)
}
