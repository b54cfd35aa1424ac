import{g as e}from"./with-preact.js";function r(){return e("h1",{tabIndex:-1,children:"GraphScreen"})}export{r as GraphScreen};
