package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The variable CI_LIMITS contains the limits of packages as words "FOLDER=DURATION". A folder is relative to the one in
// which gotest was started, and "default" applies to all others. The go command has only one limit for all packages, so
// it starts each test binary through "gotest limit", which replaces this limit with that of the package.

// limits returns the limit of each folder, which may be empty.
func limits() (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for _, word := range strings.Fields(os.Getenv("CI_LIMITS")) {
		folder, text, _ := strings.Cut(word, "=")
		limit, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("CI_LIMITS: %s: %w", word, err)
		}
		all[folder] = limit
	}
	return all, nil
}

// limitFlags returns the flags with which the go command starts test binaries through "gotest limit".
func limitFlags() ([]string, error) {
	all, err := limits()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	longest := slices.Max(slices.Collect(maps.Values(all)))
	return []string{"-exec", fmt.Sprintf("'%s' limit '%s'", self, root), "-timeout", longest.String()}, nil
}

// startLimited replaces this process with a test binary that has the limit of the package whose folder is the current
// one. The arguments are the folder in which gotest was started and the command line of the binary. Tests have small
// heaps, and with the race detector collecting them takes up to a sixth of the time, so it happens less often.
func startLimited(args []string) error {
	all, err := limits()
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	folder, err := filepath.Rel(args[0], here)
	if err != nil {
		return err
	}
	limit, ok := all[filepath.ToSlash(folder)]
	if !ok {
		limit, ok = all["default"]
	}
	binary := args[1:]
	for i, arg := range binary {
		if ok && strings.HasPrefix(arg, "-test.timeout=") {
			binary[i] = "-test.timeout=" + limit.String()
		}
	}
	return syscall.Exec(binary[0], binary, append([]string{"GOGC=400"}, os.Environ()...))
}
