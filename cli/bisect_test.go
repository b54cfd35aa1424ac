package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

// repository is a git repository with a tree of agents in the folder desk.
type repository struct {
	t   *testing.T
	dir string
	ids []string // of the commits
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	r := &repository{t: t, dir: t.TempDir()}
	require.NoError(t, os.CopyFS(r.tree(), os.DirFS(desk)))
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repository) tree() string { return filepath.Join(r.dir, "desk") }

func (r *repository) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", r.dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgSign=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	require.NoError(r.t, err, string(out))
	return strings.TrimSpace(string(out))
}

func (r *repository) replace(file, old, new string) {
	r.t.Helper()
	path := filepath.Join(r.tree(), file)
	data := must.Get(os.ReadFile(path))
	require.Contains(r.t, string(data), old)
	require.NoError(r.t, os.WriteFile(path, []byte(strings.ReplaceAll(string(data), old, new)), 0o600))
}

func (r *repository) commit(subject string) {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", subject)
	r.ids = append(r.ids, r.git("rev-parse", "HEAD"))
}

// history makes 30 revisions: two files that matter nothing change all the time, two revisions are broken, and plant
// is done in the one of that number.
func (r *repository) history(number int, plant func()) {
	for i := range 30 {
		switch {
		case i == number:
			plant()
			r.commit("The planted change")
			continue
		case i == 13, i == 16:
			r.replace("tech.md", "description:", "descriptoin:")
		case i == 14, i == 17:
			r.replace("tech.md", "descriptoin:", "description:")
		case i%3 == 0:
			require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "elsewhere"), []byte(fmt.Sprint(i)), 0o600))
		}
		require.NoError(r.t, os.WriteFile(filepath.Join(r.tree(), "NOTES.txt"), []byte(fmt.Sprint(i)), 0o600))
		r.commit(fmt.Sprintf("Note %d", i))
	}
}

type bisected struct {
	Commit, Subject, Author, Criterion, Good, Bad, Diff, Agent string
	Turn, Seq, Played, Revisions                               int
	Candidates                                                 []struct{ Commit string }
	Skipped                                                    []struct{ Commit, Reason string }
}

func TestBisect(t *testing.T) {
	t.Parallel()
	i := said(t)
	for name, tt := range map[string]struct {
		number    int
		plant     func(r *repository)
		seq       int
		criterion string
		from      int
	}{
		"description":  {9, func(r *repository) { r.replace("billing.md", "Charges", "Fines") }, 3, "request", 0},
		"instructions": {23, func(r *repository) { r.replace("billing.md", "You handle", "You do") }, 9, "request", 0},
		"the first":    {1, func(r *repository) { r.replace("support.md", "You find", "You know") }, 3, "request", 0},
		"the last":     {29, func(r *repository) { r.replace("support.md", "You find", "You know") }, 3, "request", 4},
		"agent gone": {21, func(r *repository) {
			r.replace("support.md", "billing, ", "")
			require.NoError(t, os.Remove(filepath.Join(r.tree(), "billing.md")))
		}, 5, "route", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			r.history(tt.number, func() { tt.plant(r) })
			before := r.git("status", "--porcelain")
			o := i.run(t, "bisect", "s1", r.tree(), "--good", r.ids[tt.from], "--json").exits(t, 0)
			b := must.JSON[bisected](o.out)
			require.Equal(t, r.ids[tt.number], b.Commit, o.out)
			require.Equal(t, []any{"The planted change", "Ann", tt.criterion, 1, tt.seq}, []any{b.Subject, b.Author, b.Criterion, b.Turn, b.Seq})
			require.Empty(t, b.Candidates)
			require.LessOrEqual(t, b.Played, 8)
			require.Contains(t, b.Diff, "--- a/desk/")
			for _, s := range b.Skipped {
				require.Contains(t, []string{r.ids[13], r.ids[16]}, s.Commit)
				require.Contains(t, s.Reason, "tech.md:3: unknown key")
				require.NotContains(t, s.Reason, "arbor-bisect")
			}
			require.Equal(t, before, r.git("status", "--porcelain"), "the working tree is left alone")

			o = i.run(t, "bisect", "s1", r.tree(), "--good", r.ids[tt.from]).exits(t, 0)
			require.True(t, strings.HasPrefix(o.out, r.ids[tt.number]+" is the first bad revision\nsubject: The planted change\nauthor:  Ann\n"), o.out)
		})
	}
}

// A change that comes right after broken revisions is named with them, because they may be the first bad ones.
func TestBisectBetweenBroken(t *testing.T) {
	t.Parallel()
	i := said(t)
	r := newRepository(t)
	r.history(14, func() {
		r.replace("tech.md", "descriptoin:", "description:")
		r.replace("billing.md", "Charges", "Fines")
	})
	o := i.run(t, "bisect", "s1", r.tree(), "--good", r.ids[0], "--json").exits(t, 0)
	b := must.JSON[bisected](o.out)
	require.Len(t, b.Candidates, 2)
	require.Equal(t, []string{r.ids[13], r.ids[14]}, []string{b.Candidates[0].Commit, b.Candidates[1].Commit})
	o = i.run(t, "bisect", "s1", r.tree(), "--good", r.ids[0])
	require.Contains(t, o.out, "The first bad revision is one of these")
}

// Of several changes of what a model is asked, with --ask that one is found which turns the route.
func TestBisectAsk(t *testing.T) {
	t.Parallel()
	i := said(t)
	r := newRepository(t)
	r.history(20, func() { r.replace("billing.md", "Charges", "Fines") })
	r.replace("tech.md", "slow", "lost")
	r.commit("Not that one")
	first := r.ids[0]
	r.git("checkout", "-q", "-b", "other", r.ids[5])
	r.replace("tech.md", "outages", "breakdowns")
	r.commit("Another change before")
	r.ids = r.ids[:0]
	for k := range 6 {
		if k == 3 {
			r.replace("billing.md", "Charges", "Fines")
		}
		require.NoError(t, os.WriteFile(filepath.Join(r.tree(), "NOTES.txt"), []byte(fmt.Sprint("b", k)), 0o600))
		r.commit(fmt.Sprint("Branch ", k))
	}
	i.env = serve(t, scripted.New().Func("model", func(req *llm.Request) scripted.Answer {
		switch {
		case len(req.Tools) == 0 || !strings.Contains(req.System, "You find"):
			return scripted.Reply(scripted.Text("Done."))
		case strings.Contains(req.System, "Charges"):
			return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
		}
		return scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`))
	}))
	o := i.run(t, "bisect", "s1", r.tree(), "--good", first, "--ask", "--json").exits(t, 0)
	b := must.JSON[bisected](o.out)
	require.Equal(t, []string{r.ids[3], "answer", "support → billing", "support → tech"}, []string{b.Commit, b.Criterion, b.Good, b.Bad})

	i.env = nil
	o = i.run(t, "bisect", "s1", r.tree(), "--good", first, "--json").exits(t, 0)
	require.NoError(t, json.Unmarshal([]byte(o.out), &b))
	require.Equal(t, []string{"Another change before", "request"}, []string{b.Subject, b.Criterion})
}

func TestBisectRefuses(t *testing.T) {
	t.Parallel()
	i := said(t)
	r := newRepository(t)
	r.commit("One")
	r.replace("billing.md", "You handle", "You do")
	r.commit("Two")
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "elsewhere"), nil, 0o600))
	r.commit("Elsewhere")
	require.NoError(t, os.WriteFile(filepath.Join(r.tree(), "NOTES.txt"), nil, 0o600))
	r.commit("Notes")
	for want, args := range map[string][]string{
		"ID is missing":                             nil,
		"--good is missing":                         {"s1", r.tree()},
		"there is no session":                       {"s2", r.tree(), "--good", "HEAD~1"},
		"there is no such file or folder":           {"s1", r.tree() + "x", "--good", "HEAD~1"},
		"is in no git repository":                   {"s1", i.home, "--good", "HEAD~1"},
		`there is no revision "nowhere"`:            {"s1", r.tree(), "--good", "nowhere"},
		`"--output=x" is not a revision`:            {"s1", r.tree(), "--good", "--output=x"},
		"HEAD and main are the same revision":       {"s1", r.tree(), "--good", "HEAD", "--bad", "main"},
		"HEAD is not older than HEAD~1":             {"s1", r.tree(), "--good", "HEAD", "--bad", "HEAD~1"},
		"nothing in the folder was changed":         {"s1", r.tree(), "--good", "HEAD~2", "--bad", "HEAD~1"},
		"--model, --record and --replay need --ask": {"s1", r.tree(), "--good", "HEAD~3", "--model", "m"},
		"--at 99: session s1 has the position":      {"s1", r.tree(), "--good", "HEAD~3", "--at", "99"},
	} {
		o := i.run(t, append([]string{"bisect"}, args...)...).exits(t, 2, want)
		require.Contains(t, o.err, want)
		require.Empty(t, o.out)
	}
	o := i.run(t, "bisect", "s1", r.tree(), "--good", "HEAD~1").exits(t, 1)
	require.Contains(t, o.err, "the good and the bad revision do the same in this session")

	i.env = []string{"PATH=" + t.TempDir()}
	o = i.run(t, "bisect", "s1", r.tree(), "--good", "HEAD~3").exits(t, 2)
	require.Contains(t, o.err, "git is needed, and is not installed")
}

// The rule of a router that turned a route is found from the log alone, whether the session was made before or after.
func TestBisectRouter(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]int{"made with the good one": 0, "made with the bad one": 29} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			front := filepath.Join(r.tree(), "front.yaml")
			require.NoError(t, os.WriteFile(front, []byte("kind: Router\nname: front\ndescription: Finds who answers\ndefault: tech\n"+
				"specialists:\n  - {agent: billing}\n  - {agent: tech}\nrules:\n  - when: {keywords: [charged]}\n    to: billing\n    reason: money\n"), 0o600))
			for _, file := range []string{"billing.md", "tech.md"} { // a router's specialists have no parent to return to
				data := must.Get(os.ReadFile(filepath.Join(r.tree(), file)))
				var kept []string
				for _, line := range strings.Split(string(data), "\n") {
					if !strings.HasPrefix(line, "transfer:") {
						kept = append(kept, line)
					}
				}
				require.NoError(t, os.WriteFile(filepath.Join(r.tree(), file), []byte(strings.Join(kept, "\n")), 0o600))
			}
			r.history(11, func() { r.replace("front.yaml", "[charged]", "[charge]") })
			r.git("checkout", "-q", r.ids[made])
			i := invocation{home: t.TempDir()}
			for _, words := range []string{"Hello", "I was charged twice"} {
				i.run(t, "run", front, words, "--session", "s1").exits(t, 0)
			}
			r.git("checkout", "-q", "main")
			o := i.run(t, "bisect", "s1", front, "--good", r.ids[0], "--json").exits(t, 0)
			b := must.JSON[bisected](o.out)
			require.Equal(t, []any{r.ids[11], "route", 2, "front"}, []any{b.Commit, b.Criterion, b.Turn, b.Agent}, o.out)
			with := map[bool][]string{true: {"what the log has", "front routes to tech"}, false: {"front routes to billing", "what the log has"}}
			require.Equal(t, with[made == 0], []string{b.Good, b.Bad})
		})
	}
}
