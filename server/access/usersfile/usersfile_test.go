package usersfile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/server/access"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func entry(name, token, may string) string {
	return fmt.Sprintf("- name: %s\n  token: %s\n  may: %s\n", name, access.HashToken(token), may)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.yaml")
	write(t, path, "# ours\n"+entry("ann", "a", "[inspect, act, desk, approve]")+"\n# and a bot\r\n- {may: [], name: \"build-bot\", token: '"+access.HashToken("b").String()+"'}\n"+
		"- name: 'no'\n  token: "+access.HashToken("c").String()+"\n")
	require.Equal(t, []access.Account{{Name: "ann", Token: access.HashToken("a"), Rights: access.All},
		{Name: "build-bot", Token: access.HashToken("b")}, {Name: "no", Token: access.HashToken("c")}}, must(Read(path)))
	for _, empty := range []string{"", "# nobody yet\n", "[]\n"} {
		write(t, path, empty)
		require.Empty(t, must(Read(path)))
	}
}

func TestMistakes(t *testing.T) {
	hash := access.HashToken("a").String()
	many := strings.Repeat("x", maxName+1)
	tests := map[string]string{
		"name: ann\n":                                       "F:1: a users file is a list",
		"- ann\n":                                           "F:1: a users file is a list",
		"- name: ann\n":                                     "F:1: the token is missing",
		"- token: " + hash + "\n":                           "F:1: the name is missing",
		"- name: ann\n  token: hunter2\n":                   "F:2: the hash of a token must be sha256:",
		"- name: ann\n  token: 12\n":                        "F:2: the hash of a token must be sha256:",
		"- name: ann\n  token: [hunter2]\n":                 "F:2: the hash of a token must be sha256:",
		"- name: 12\n  token: " + hash + "\n":               `F:1: name must be a text such as ann, not the number 12: put it in quotes, "12"`,
		"- name: local\n  token: " + hash + "\n":            "F:1: local is the owner of this machine",
		"- name: '..'\n  token: " + hash + "\n":             `F:1: ".." cannot be a name: a name must not contain . or .. between slashes`,
		"- name: 'a b'\n  token: " + hash + "\n":            `F:1: "a b" cannot be a name`,
		"- name: \"\"\n  token: " + hash + "\n":             `F:1: "" cannot be a name`,
		"- name: " + many + "\n  token: " + hash:            "cannot be a name: it must have 1 to 64 bytes",
		"- nam: ann\n  token: " + hash + "\n":               `F:1: unknown key "nam"; did you mean "name"?`,
		entry("ann", "a", "inspect"):                        "F:3: may must be a list of rights such as [inspect, act, desk, approve]",
		entry("ann", "a", "[inspcet]"):                      `"inspcet" is not a right: use one of inspect, act, desk, approve, or a name of your own; did you mean "inspect"?`,
		entry("ann", "a", "[true]"):                         "may must be a list of rights, but one of them is true",
		entry("a", "a", "[]\n  name: b"):                    `F:4: the key "name" is repeated: it is already on line 1`,
		entry("a", "a", "[]") + entry("a", "b", "[]"):       "F:4: the user a is already on line 1",
		entry("paul", "a", "[]") + entry("pau1", "b", "[]"): `F:4: the name "pau1" looks like "paul" on line 1: choose another name`,
		entry("1ocal", "a", "[]"):                           `F:1: the name "1ocal" looks like local, the owner of this machine: choose another name`,
		entry("a", "a", "[]") + entry("b", "a", "[]"):       "F:5: the user of line 2 has the same token",
		"- name: ann\n\ttoken: x\n":                         "F:2:",
		"- &x {name: ann, token: " + hash + "}\n":           "anchors, aliases, merge keys, tags and directives are not read in the file",
		"---\n[]\n---\n[]\n":                                "F:4: a users file is a list",
		"\xff":                                              "F:1: the line is not UTF-8",
	}
	path := filepath.Join(t.TempDir(), "users.yaml")
	for text, want := range tests {
		write(t, path, text)
		_, err := Read(path)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, text)
		require.Contains(t, strings.ReplaceAll(err.Error(), path, "F"), want)
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), hash[7:20])
	}
	write(t, path, "- nam: ann\n- name: bob\n  token: x\n")
	_, err := Read(path)
	require.Len(t, strings.Split(err.Error(), "\n"), 4, "all mistakes are told at once: %s", err)

	_, err = Read(filepath.Dir(path))
	require.ErrorContains(t, err, "this is a folder, and a file is needed")
	_, err = Read(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
	write(t, path, strings.Repeat("#", maxFile+1))
	_, err = Read(path)
	require.ErrorContains(t, err, "larger than 4 MiB")
}

func token(t string) access.Credentials {
	return access.Credentials{Header: func(string) []string { return []string{"Bearer " + t} }}
}

// A file that has changed is taken within two seconds; one that cannot be used changes nothing.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "users.yaml")
		owner := access.Account{Name: "local", Token: access.HashToken("o"), Rights: access.All}
		_, err := Open(path, false, owner)
		require.ErrorIs(t, err, os.ErrNotExist)
		f := must(Open(path, true, owner))
		var told []string
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		go f.Follow(ctx, func(users int, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				told = append(told, strings.ReplaceAll(err.Error(), path, "F"))
				return
			}
			told = append(told, fmt.Sprint(users))
		})
		pass := func() []string {
			time.Sleep(2 * interval)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			now := told
			told = nil
			return now
		}
		may := func(t string) bool {
			_, err := f.Accounts().Authenticate(context.Background(), token(t))
			return err == nil
		}
		require.Empty(t, pass(), "it need not be there")
		require.True(t, may("o"))
		write(t, path, entry("ann", "a", "[]"))
		require.Equal(t, []string{"1"}, pass())
		require.True(t, may("a"))
		ann := must(access.Authenticate(t.Context(), f.Accounts(), token("a")))
		open, end := access.UntilRevoked(ann)
		defer end()

		require.NoError(t, os.Chtimes(path, time.Now(), time.Now()))
		require.Empty(t, pass())
		write(t, path, entry("ann", "a", "[]")+entry("bob", "b", "[desk]"))
		require.Equal(t, []string{"2"}, pass())
		require.True(t, may("b"))
		require.NoError(t, open.Err())
		write(t, path, entry("bob", "b", "[desk]")+"- name: eve\n")
		require.Equal(t, []string{"F:4: the token is missing: a users file is a list of entries such as {name: ann, token: sha256:…, may: [inspect]}"}, pass())
		require.Empty(t, pass(), "it is told once")
		require.True(t, may("a"))
		write(t, path, entry("bob", "o", "[desk]"))
		require.Contains(t, pass()[0], "have the same token")
		require.NoError(t, os.Remove(path))
		_, err = os.ReadFile(path)
		require.Equal(t, strings.ReplaceAll(err.Error(), path, "F"), pass()[0])
		require.True(t, may("a"), "who removes the file has removed nobody")

		write(t, path, entry("ann", "a", "[]")+entry("bob", "b", "[desk]")) // as it was
		require.Equal(t, []string{"2"}, pass())
		write(t, path, entry("bob", "b", "[desk]"))
		require.Equal(t, []string{"1"}, pass())
		require.False(t, may("a"))
		require.ErrorIs(t, context.Cause(open), access.ErrRevoked)
		require.True(t, may("b"))
		require.True(t, may("o"))
	})
}

// A file that somebody is just writing is not taken.
func TestHalfOfAFileIsNotTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.yaml")
	all := entry("ann", "a", "[]") + entry("bob", "b", "[]")
	write(t, path, all)
	f := must(Open(path, false))
	for _, part := range []string{"", entry("ann", "a", "[]"), all + entry("eve", "e", "[]")} {
		write(t, path, part)
		require.False(t, must(f.reload()))
		_, err := f.Accounts().Authenticate(t.Context(), token("b"))
		require.NoError(t, err)
	}
	require.True(t, must(f.reload()))
	require.False(t, must(f.reload()))
}

func TestReadable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("this system has other permissions")
	}
	path := filepath.Join(t.TempDir(), "users.yaml")
	write(t, path, "")
	f := must(Open(path, false))
	require.False(t, f.Readable())
	require.NoError(t, os.Chmod(path, 0o640))
	require.True(t, f.Readable())
}

// private requires that only the file's owner can read it, on systems that have such permissions.
func private(t *testing.T, path string) {
	t.Helper()
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), must(os.Stat(path)).Mode().Perm())
	}
}

func TestAddAndRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "users.yaml")
	given := must(Add(path, "ann", access.Inspect|access.Desk))
	require.Len(t, given, 26)
	private(t, path)
	require.NotContains(t, string(must(os.ReadFile(path))), given)
	require.Equal(t, []access.Account{{Name: "ann", Token: access.HashToken(given), Rights: access.Inspect | access.Desk}}, must(Read(path)))
	_, err := Add(path, "ann", 0)
	require.ErrorIs(t, err, ErrExists)
	for _, name := range []string{"local", "", "a b", "a\nb", "a\x00"} {
		_, err = Add(path, name, 0)
		require.Error(t, err)
	}
	names := []string{"no", "12", "o'neil", "zoë", "#x", "a:b", "-", "true", "ann@example.com", "*", "1e3"}
	for _, name := range names {
		must(Add(path, name, 0))
	}
	for i, got := range must(Read(path))[1:] {
		require.Equal(t, names[i], got.Name)
	}
	for _, name := range names {
		require.NoError(t, Remove(path, name))
	}
	require.ErrorIs(t, Remove(path, "no"), ErrNoUser)
	require.NoError(t, Remove(path, "ann"))
	require.Empty(t, must(Read(path)))
	require.ErrorIs(t, Remove(path+"x", "ann"), os.ErrNotExist)
	require.Len(t, must(os.ReadDir(dir)), 1, "nothing else is left behind")
}

// What people wrote into the file stays as it is.
func TestRemoveLeavesTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.yaml")
	head, ann, about, bob, end := "# our users\r\n", entry("ann", "a", "[]"), "\n# bob is new\n", entry("bob", "b", "[desk] # for now"), "# the end"
	write(t, path, head+ann+about+bob+end)
	require.NoError(t, os.Chmod(path, 0o644))
	require.NoError(t, Remove(path, "ann"))
	require.Equal(t, head+about+bob+end, string(must(os.ReadFile(path))))
	private(t, path)
	must(Add(path, "cleo", 0))
	require.True(t, strings.HasPrefix(string(must(os.ReadFile(path))), head+about+bob+end+"\n- name: cleo\n"))
	require.NoError(t, Remove(path, "bob"))
	require.Equal(t, "cleo", must(Read(path))[0].Name)

	// A form that lines cannot change is left to whoever has chosen it.
	for _, text := range []string{"[{name: ann, token: '" + access.HashToken("a").String() + "'}, {name: bob, token: '" + access.HashToken("b").String() + "'}]\n", "-\n" + strings.Replace(ann, "-", " ", 1) + bob} {
		write(t, path, text)
		require.ErrorContains(t, Remove(path, "ann"), "edit it manually")
		require.Equal(t, text, string(must(os.ReadFile(path))))
	}
	if runtime.GOOS == "windows" { // where links need a right of their own
		return
	}
	// Where the file is a link, its target changes.
	link := filepath.Join(filepath.Dir(path), "link")
	write(t, path, ann)
	require.NoError(t, os.Symlink("users.yaml", link))
	must(Add(link, "bob", 0))
	require.Len(t, must(Read(path)), 2)
	require.NotZero(t, must(os.Lstat(link)).Mode()&os.ModeSymlink)
}

// Processes that add users at once lose none.
func TestProcesses(t *testing.T) {
	if path := os.Getenv("USERSFILE_TEST"); path != "" {
		for i := range 20 {
			must(Add(path, fmt.Sprintf("%s-%d", os.Getenv("USERSFILE_NAME"), i), 0))
		}
		return
	}
	path := filepath.Join(t.TempDir(), "users.yaml")
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], "-test.run=^TestProcesses$")
			cmd.Env = append(os.Environ(), "USERSFILE_TEST="+path, fmt.Sprintf("USERSFILE_NAME=p%d", i))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s", out)
			}
		})
	}
	all.Wait()
	require.Len(t, must(Read(path)), 60)
}

// No text is read without an error or within a panic, and none that is read has a user twice.
func FuzzRead(f *testing.F) {
	f.Add(entry("ann", "a", "[inspect]"))
	f.Add("[]")
	f.Add("- {name: x, token: y, may: {}}\n- []\n- 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		accounts, lines, err := parse("F", []byte(text))
		if err != nil {
			require.ErrorAs(t, err, new(*Error))
			return
		}
		require.Len(t, lines, len(accounts))
		_, err = access.NewAccounts(accounts...)
		require.NoError(t, err)
	})
}
