package zz
import ("fmt";"os";"testing";"strings";"sort"
"github.com/nats-io/nats-server/v2/conf"
"github.com/idworker/idworker/testing/natsconf")

var b strings.Builder
func list(ind string, key string, subjects []any){
 line := ind+key+": ["
 cont := ind+"  "
 b.WriteString(line)
 width:=len(line)
 if len(subjects)>2 { b.WriteString("\n"+cont); width=len(cont) }
 for i,s:=range subjects {
  q:=fmt.Sprintf("%q",s)
  if i<len(subjects)-1 {q+=","}
  if width+len(q)+1>118 { b.WriteString("\n"+cont); width=len(cont)} else if i>0 { b.WriteString(" "); width++ }
  b.WriteString(q); width+=len(q)
 }
 if len(subjects)>2 { b.WriteString("\n"+ind) }
 b.WriteString("]\n")
}
func flow(v any) string {
 switch x:=v.(type){
 case map[string]any:
  var ks []string; for k:=range x {ks=append(ks,k)}; sort.Slice(ks,func(i,j int)bool{ o:=map[string]int{"service":0,"stream":0,"account":1,"subject":2}; return o[ks[i]]<o[ks[j]]})
  var p []string; for _,k:=range ks {p=append(p,k+": "+flow(x[k]))}
  return "{ "+strings.Join(p,", ")+" }"
 case []any:
  var p []string; for _,e:=range x{p=append(p,flow(e))}
  return "["+strings.Join(p,", ")+"]"
 case string:
  if strings.ContainsAny(x,"$>.") {return fmt.Sprintf("%q",x)}
  return x
 }
 return fmt.Sprint(v)
}
func TestGen(t *testing.T){
 os.Setenv("IDS_NATS_DATA","/x")
 v:=func(n string){os.Setenv(n,`"<< $`+n+` >>"`)}
 v("IDS_SYS_PASSWORD")
 for _,u:=range natsconf.Users(){v(u.PasswordVariable())}
 m,err:=conf.ParseFile("nats.conf"); if err!=nil{t.Fatal(err)}
 acc:=m["accounts"].(map[string]any)
 for _,name:=range []string{"SYS","IDS","CALLERS","ORDERS","ORDERS_AUDIT"}{
  a:=acc[name].(map[string]any)
  fmt.Fprintf(&b,"      %s:\n",name)
  for _,k:=range []string{"limits","jetstream"}{
   if x,ok:=a[k].(map[string]any);ok{
    fmt.Fprintf(&b,"        %s: %v\n",k,x)
   }
  }
  for _,k:=range []string{"imports","exports"}{
   if x,ok:=a[k].([]any);ok{
    fmt.Fprintf(&b,"        %s:\n",k)
    for _,e:=range x {fmt.Fprintf(&b,"          - %s\n",flow(e))}
   }
  }
  fmt.Fprintf(&b,"        users:\n")
  for _,u:=range a["users"].([]any){
   u:=u.(map[string]any)
   fmt.Fprintf(&b,"          - user: %s\n            password: %s\n",u["user"],u["password"])
   if p,ok:=u["permissions"].(map[string]any);ok{
    b.WriteString("            permissions:\n")
    list("              ","publish",p["publish"].([]any))
    list("              ","subscribe",p["subscribe"].([]any))
   }
  }
 }
 os.WriteFile("/tmp/opscratch/accounts.yaml",[]byte(b.String()),0o644)
}
