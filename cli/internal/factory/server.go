package factory

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/session"
)

// serverFlags say where a server is whose sessions are used.
type serverFlags struct{ URL, TokenFile string }

// Words are the flags that lead to the same server.
func (f serverFlags) Words() []string {
	words := []string{"--server", QuoteArg(f.URL)}
	if f.TokenFile != "" {
		words = append(words, "--token-file", QuoteArg(f.TokenFile))
	}
	return words
}

// TokenVariable is the environment variable that holds the owner's token of serve.
const TokenVariable = "ARBOR_TOKEN"

// maxSecretFile bounds the files with the token and the key, in bytes.
const maxSecretFile = 64 << 10

// Owner is whose sessions the other commands have, too, and who may do everything.
var Owner = access.User{Name: session.DefaultUser, Rights: access.All | access.Owner}

// ReadSecret reads a file with one secret in it. No error holds what is in it.
func ReadSecret(flag, name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", Usagef("%s: %w", flag, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	switch text := strings.TrimSpace(string(data)); {
	case err != nil:
		return "", Usagef("%s: %w", flag, err)
	case text == "":
		return "", Usagef("%s %s: the file is empty", flag, name)
	case len(data) > maxSecretFile:
		return "", Usagef("%s %s: the file is too long", flag, name)
	default:
		return text, nil
	}
}

// UsersFlag adds --users.
func UsersFlag(f *Factory, fs *pflag.FlagSet, file *string) {
	fs.StringVar(file, "users", "", "read the users and their rights from `FILE` (default "+f.Name+"/users.yaml in the state directory)")
}

// UsersPath returns the users file that a flag names, or the default one.
func (f *Factory) UsersPath(file string) (string, error) {
	if file != "" {
		return file, nil
	}
	db, err := f.defaultFile()
	return filepath.Join(filepath.Dir(db), "users.yaml"), err
}
