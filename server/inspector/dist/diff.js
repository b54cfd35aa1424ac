import{g as f}from"./with-preact.js";function t(){return f("h1",{tabIndex:-1,children:"Diff"})}export{t as Diff};
