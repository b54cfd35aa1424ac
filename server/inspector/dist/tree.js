import{g as e}from"./with-preact.js";function r(){return e("h1",{tabIndex:-1,children:"Tree"})}export{r as Tree};
