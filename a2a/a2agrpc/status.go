package a2agrpc

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/agentarbor/arbor/a2a/internal/wire"
)

// toError returns the gRPC status of a handler's error. It does not send the text of errors that the protocol does not
// define, because it may be confidential. hidden reports that err is such an error and should be logged.
func toError(err error) (st error, hidden bool) {
	t := wire.FailureOf(err, "", time.Time{})
	out := &spb.Status{Code: int32(codeOf(t.Kind)), Message: t.Message}
	for _, d := range t.Details {
		if detail, err := encode[any, anypb.Any](d); err == nil { // without the detail, the code still identifies the error
			out.Details = append(out.Details, detail)
		}
	}
	return status.ErrorProto(out), t.Hidden
}

func codeOf(k wire.Kind) (code codes.Code) {
	_ = code.UnmarshalJSON([]byte(strconv.Quote(k.Name))) // the names are those of gRPC
	return code
}

// fromError returns the protocol error of a peer's status. The reason decides, if there is one, because some errors had
// other codes in version 1.0.0 of the specification. Otherwise the code decides. A code with which servers also report
// failures of their own, such as Internal, is not a protocol error, because it does not show how far the server got.
func fromError(st *status.Status) error {
	var reason string
	var meta map[string]string
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == sdk.ProtocolDomain {
			reason, meta = info.GetReason(), info.GetMetadata()
		}
	}
	i := slices.IndexFunc(wire.Kinds, func(k wire.Kind) bool { return k.Reason == reason })
	if i < 0 && st.Code() != codes.Internal {
		i = slices.IndexFunc(wire.Kinds, func(k wire.Kind) bool { return codeOf(k) == st.Code() })
	}
	if i < 0 {
		return fmt.Errorf("the server returned %s: %s", st.Code(), st.Message())
	}
	err := sdk.NewError(wire.Kinds[i].Err, st.Message())
	if len(meta) > 0 {
		err = err.WithErrorInfoMeta(meta)
	}
	return err
}
