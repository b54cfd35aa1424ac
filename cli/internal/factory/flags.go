package factory

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/internal/yamldoc"
)

// OneOf returns an error if the value of a flag or an argument is none of the choices.
func OneOf(name, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return Usagef("%s %s: choose %s%s", name, render.Cut(visible.Line(value), 40), yamldoc.Or(choices), nearest.Hint(value, choices))
}

// InRange returns an error if the number of a flag is out of range. A most of 0 sets no upper bound.
func InRange(flag string, n, least, most int) error {
	switch {
	case n >= least && (most == 0 || n <= most):
		return nil
	case most == 0:
		return Usagef("%s %d: give a whole number of at least %d", flag, n, least)
	}
	return Usagef("%s %d: give a whole number from %d to %d", flag, n, least, most)
}

// given reports whether a flag has a value that is neither empty nor false.
func given(fs *pflag.FlagSet, name string) bool {
	flag := fs.Lookup(name)
	return flag != nil && flag.Changed && flag.Value.String() != "" && flag.Value.String() != "false"
}

// Exclusive returns an error if several of the flags are given, of which a command takes only one.
func Exclusive(fs *pflag.FlagSet, names ...string) error {
	names = slices.DeleteFunc(names, func(name string) bool { return !given(fs, name) })
	if len(names) < 2 {
		return nil
	}
	return Usagef("--%s exclude each other: give only one of them", strings.Join(names, " and --"))
}

// Needs returns an error if a flag is given without one of the flags that it needs.
func Needs(fs *pflag.FlagSet, name string, needed ...string) error {
	if !given(fs, name) || slices.ContainsFunc(needed, func(name string) bool { return given(fs, name) }) {
		return nil
	}
	for i, other := range needed {
		needed[i] = "--" + other
	}
	return Usagef("--%s needs %s", name, yamldoc.Or(needed))
}
