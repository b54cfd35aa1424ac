import{g as e}from"./with-preact.js";function t(){return e("h1",{tabIndex:-1,children:"Usage"})}export{t as Usage};
