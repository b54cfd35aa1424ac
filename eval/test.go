package eval

import (
	"context"

	"github.com/agentarbor/arbor/agent"
)

// TB is what [Test] needs of a test: a *testing.T has it.
type TB[T any] interface {
	Helper()
	Context() context.Context
	Run(name string, f func(T)) bool
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Test plays the cases of a file with a tree, each in a subtest of its name, and fails
// where something is not as expected:
//
//	func TestRouting(t *testing.T) { eval.Test(t, root, "testdata/cases.yaml") }
//
// The cases are played one after the other, so that -run chooses among them, and Parallel is how many
// repetitions of one are played at once. A file with mistakes, names that the tree does not have, and a
// model that cannot be asked end the test.
func Test[T TB[T]](t T, root agent.Agent, file string, opts ...Option) {
	t.Helper()
	cases, err := LoadFile(file)
	if err == nil {
		err = Check(cases, root)
	}
	if err != nil {
		t.Fatalf("%s", err)
		return
	}
	for _, c := range cases {
		t.Run(c.Name, func(t T) {
			t.Helper()
			report, err := Run(t.Context(), []Case{c}, []Subject{{Root: root}}, opts...)
			if err != nil {
				t.Fatalf("%s", err)
				return
			}
			for _, o := range report.Subjects[0].Outcomes {
				o.tell(t.Errorf, len(report.Subjects[0].Outcomes))
			}
		})
	}
}

// tell reports each difference with its line.
func (o *Outcome) tell(errorf func(string, ...any), of int) {
	again := func(f string, args []any) (string, []any) {
		if of > 1 {
			return f + " (repetition %d of %d)", append(args, o.Repeat, of)
		}
		return f, args
	}
	for i := range o.Turns {
		t := &o.Turns[i]
		for _, d := range t.Differences {
			f, args := again("%s:%d: %q: %s: %s", []any{o.File, t.Line, cut(t.User, 60), d.Kind, d.Message})
			errorf(f, args...)
		}
	}
	for _, d := range o.Differences {
		f, args := again("%s:%d: %s: %s", []any{o.File, o.Line, d.Kind, d.Message})
		errorf(f, args...)
	}
}
