package sqlite_test
import ("testing";"os/exec";"context";"path/filepath"
"github.com/agentarbor/arbor/session"
"github.com/agentarbor/arbor/session/sqlite")
func TestZZ(t *testing.T){
 p:=filepath.Join(t.TempDir(),"a.db")
 s,err:=sqlite.Open(p); if err!=nil{t.Fatal(err)}
 l,err:=s.Acquire(context.Background(),session.ID("x"),session.Self()); if err!=nil{t.Fatal(err)}
 _=s.Release(context.Background(),session.ID("x"),l)
 for range s.Load(context.Background(),session.ID("x"),0) {}
 if err:=s.Close();err!=nil{t.Fatal(err)}
 o,_:=exec.Command("ls","-la",filepath.Dir(p)).CombinedOutput()
 t.Log(string(o))
}
