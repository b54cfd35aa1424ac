package llm

import "context"

// Attempt is a request that a model which asks others, such as a chain of fallbacks, has
// sent for an answer and that came to nothing. It comes in a chunk of its own, before
// anything of the answer does, so that it takes nothing back. Whoever keeps the books
// counts it as a call.
type Attempt struct {
	// Model is the name of the model that was asked.
	Model   string
	Code    ErrorCode
	Message string
	// Usage is what it has used, nil if the endpoint did not say.
	Usage *Usage
	// Begun is true if an answer was under way when the request was given up, which
	// somebody has to pay for.
	Begun bool
}

// Notice tells people what has happened around an answer, in a chunk of its own. It is no
// part of the answer, and no model reads it.
type Notice struct{ Code, Message string }

// CodeHedged is the code of an [Attempt] that was given up because another one for the
// same answer was faster.
const CodeHedged ErrorCode = "hedged"

// Composite is a model that asks others.
type Composite interface {
	Model
	// Models returns the models that it asks.
	Models() []Model
}

type admission struct{}

type anticipation struct{}

// WithAnticipation returns a context in which [Anticipated] is true.
func WithAnticipation(ctx context.Context) context.Context {
	return context.WithValue(ctx, anticipation{}, true)
}

// Anticipated reports whether the model is asked before it is known whether its agent answers: the request is likely
// to be cancelled.
func Anticipated(ctx context.Context) bool { return ctx.Value(anticipation{}) != nil }

// Admission says whether one more request may be sent to a model for an answer under
// way, beside so many that are not over yet. Its error says why not.
type Admission func(m Model, req *Request, beside int) error

// WithAdmission returns a context in which [Admit] asks f. Whoever bounds calls gives
// such a context to a [Composite].
func WithAdmission(ctx context.Context, f Admission) context.Context {
	return context.WithValue(ctx, admission{}, f)
}

// Admit is called by a [Composite] before each request for an answer but the first, on
// the goroutine that ranges over the answer. In a context without an [Admission] every
// request may be sent.
func Admit(ctx context.Context, m Model, req *Request, beside int) error {
	if f, ok := ctx.Value(admission{}).(Admission); ok {
		return f(m, req, beside)
	}
	return nil
}
