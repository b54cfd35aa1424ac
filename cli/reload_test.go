//go:build unix

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/llm/scripted"
)

// ownDesk copies the desk, so that its files can be changed, and returns its path with a function
// that saves a file as editors do: beside it, and then renamed into its place.
func ownDesk(t *testing.T) (dir string, save func(name, content string)) {
	dir = filepath.Join(t.TempDir(), "desk")
	require.NoError(t, os.CopyFS(dir, os.DirFS(desk)))
	return dir, func(name, content string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path+"~", []byte(content), 0o600))
		require.NoError(t, os.Rename(path+"~", path))
	}
}

const rewritten = "---\nname: front\nsubagents: [billing, tech, night]\n---\nYou were written anew.\n"

// A served tree follows its files: a turn under way ends with the old one, the next begins with
// the new one, and so does the card. What cannot be used changes nothing, and is said once.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	answer, asked, release := slow("The old one says so.")
	script := answers(answer, scripted.Reply(scripted.Text("The new one.")), scripted.Reply(scripted.Text("Still the new one.")))
	s := invocation{env: serve(t, script)}.serve(t, dir, "--db", ":memory:")
	begun, lines := s.stream("first")
	receive(t, asked)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "night.md"), []byte("---\n---\nYou work at night.\n"), 0o600))
	save("support.md", rewritten)
	s.said.until(t, "arbor: the files have changed: front with 4 agents from now on\n", 1)
	require.Equal(t, "front", s.card("").Name)
	require.Equal(t, "The new one.", s.send("second").words())
	close(release)
	for lines.Scan() { // until the first turn is over
	}
	require.Equal(t, "The old one says so.", s.get(begun.ID).words())
	asks := script.Requests("model")
	require.Contains(t, asks[0].System, "You find the right specialist.")
	require.Contains(t, asks[1].System, "You were written anew.")

	save("tech.md", "---\nname: tech\ndescripton: typo\n---\n")
	problem := filepath.Join(dir, "tech.md") + `:3: unknown key "descripton"; did you mean "description"?`
	s.said.until(t, "arbor: the files have changed and cannot be used; the tree stays as it was\n"+problem+"\n", 1)
	save("billing.md", "---\nname: billing\nmodle: x\n---\n")
	s.said.until(t, `:3: unknown key "modle"`, 1)
	require.Equal(t, "Still the new one.", s.send("third").words())
	require.Contains(t, script.Requests("model")[2].System, "You were written anew.")
	require.Equal(t, 0, s.stop(os.Interrupt), "%s", s.said)
}

// A tree that is not to follow its files does not.
func TestNoReload(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	script := answers(scripted.Reply(scripted.Text("The old one.")))
	s := invocation{env: serve(t, script)}.serve(t, dir, "--db", ":memory:", "--no-reload")
	save("support.md", rewritten)
	require.Equal(t, "The old one.", s.send("hello").words())
	require.Contains(t, script.Requests("model")[0].System, "You find the right specialist.")
	require.Equal(t, 0, s.stop(os.Interrupt))
	require.NotContains(t, s.said.String(), "the files have changed")
	got := invocation{program: "embedded"}.run(t, "chat", "--no-reload")
	require.Contains(t, got.err, "unknown flag: --no-reload")
}

// On a terminal the news come above the line that is being typed, which stays.
func TestChatReloads(t *testing.T) {
	t.Parallel()
	dir, save := ownDesk(t)
	answer, asked, release := slow("The old one says so.")
	script := answers(answer, scripted.Reply(scripted.Text("The new one.")))
	s := invocation{env: append(serve(t, script), "NO_COLOR=1")}.onScreen(t, "chat", dir, "--db", ":memory:")
	s.until("you> ")
	s.enter("hello\r")
	receive(t, asked)
	save("support.md", strings.Replace(rewritten, ", night", "", 1))
	close(release)
	require.NotContains(t, s.until("The old one says so."), "the files have changed", "the answer is not interrupted")
	s.until("the files have changed: front with 3 agents from now on")
	s.until("you> ")
	s.enter("and no")
	s.until("and no")
	save("tech.md", "---\nname: [\n---\n")
	s.until("cannot be used; the tree stays as it was")
	s.until("tech.md:")
	s.until("and no") // is drawn again
	s.enter("w?\r")
	s.until("front: The new one.")
	s.until("you> ")
	s.enter("/agents\r")
	s.until("front ← active")
	s.enter("/quit\r")
	require.Equal(t, 0, s.status())
	asks := script.Requests("model")
	require.Contains(t, asks[0].System, "You find the right specialist.")
	require.Contains(t, asks[1].System, "You were written anew.")
	require.Equal(t, "and now?", asks[1].Messages[len(asks[1].Messages)-1].Text)
}
